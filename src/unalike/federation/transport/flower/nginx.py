"""The proxy's rules for those who have nginx in front already."""

from __future__ import annotations

from pathlib import Path

from unalike.federation.transport.flower.proxy import PREFIX, REQUESTS, Limits

_TEMPLATE = """\
# The same rules as unalike's own proxy, for a machine that has nginx in front. Made by unalike; to be included in
# the http block. The link listens on loopback only: nothing but these locations may lead to it.
limit_conn_zone $binary_remote_addr zone=unalike_peers:1m;

server {{
    listen {port} ssl;
    server_name {host};
    ssl_certificate     {certificates}/server.pem;
    ssl_certificate_key {certificates}/server.key;
    ssl_protocols       TLSv1.2 TLSv1.3;

    # Nodes send pieces of at most 5 MB, and small headers.
    client_max_body_size        {body};
    client_header_buffer_size   4k;
    large_client_header_buffers 4 4k;
    client_header_timeout       {idle}s;
    client_body_timeout         {idle}s;
    send_timeout                {idle}s;
    limit_conn                  unalike_peers 50;
    limit_conn_status           503;
    merge_slashes               off;
    error_log                   /var/log/nginx/unalike-error.log warn;
    access_log                  /var/log/nginx/unalike-access.log;

    # Everything that is not named below: control, runtime, health, documentation.
    location / {{ return 403; }}

{locations}
}}
"""
_LOCATION = """\
    location = {path} {{
        if ($request_uri != "{path}") {{ return 403; }}  # no query, no other spelling of the same path
        if ($request_method != POST) {{ return 403; }}
        if ($http_transfer_encoding) {{ return 403; }}
        proxy_request_buffering       on;
        proxy_http_version            1.1;
        proxy_set_header              Connection "";
        proxy_set_header              Upgrade "";
        proxy_set_header              Host $host;
        proxy_ssl_verify              on;
        proxy_ssl_trusted_certificate {certificates}/ca.pem;
        proxy_ssl_name                localhost;
        proxy_read_timeout            {seconds}s;
        proxy_pass                    {upstream};
    }}
"""


def nginx_configuration(
    host: str, port: int, upstream: str, certificates: Path, limits: Limits | None = None
) -> str:
    """The text of a configuration file."""
    limits = limits or Limits()
    where = str(certificates.resolve())
    locations = "\n".join(
        _LOCATION.format(
            path=(PREFIX + name).decode(),
            certificates=where,
            upstream=upstream,
            seconds=int(limits.request_seconds),
        )
        for name in sorted(REQUESTS)
    )
    idle = int(limits.idle_seconds)
    return _TEMPLATE.format(
        host=host, port=port, certificates=where, body=limits.body, idle=idle, locations=locations.rstrip()
    )
