"""Between "bytes for a party" and "bytes back": HTTPS with mutual TLS, one port at the server, none at a site.

Sites call and wait for questions (``client.Caller``); the server has a guarded port (``door``), a desk where
questions lie until a site fetches them and answers come in (``desk``), and ``server.HttpsServer``, which is the
transport that the federation's logic speaks through. Nothing here imports torch.
"""
