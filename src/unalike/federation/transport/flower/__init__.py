"""Between "bytes for a party" and "bytes back": Flower, with TLS, node authentication and a filtering proxy.

Nothing here imports torch: a site's processes start quickly. The public pieces are ``SiteDoor`` (door), ``Node``
(node), ``Link`` and ``Control`` (link), ``FlowerTransport`` and ``Failure`` (transport), and ``certificates``.
"""
