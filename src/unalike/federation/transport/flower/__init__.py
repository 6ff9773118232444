"""Between "bytes for a party" and "bytes back": a federation of Flower that somebody operates already.

At the server ``FlowerTransport`` speaks to Flower's grid; at a site the ClientApp passes bytes through a door
to the process with the data. Only what Flower documents is used: flwr.app, flwr.serverapp and flwr.clientapp.
"""
