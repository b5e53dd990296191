"""An S3 server (moto) with the publicly readable bucket `spoor`; prints its address."""

import signal
import sys
import urllib.request

try:
    from moto.server import ThreadedMotoServer
except ImportError:
    print("no moto")
    sys.exit()

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
address = f"http://{host}:{port}"
urllib.request.urlopen(urllib.request.Request(f"{address}/spoor", method="PUT")).read()
print(address, flush=True)
signal.pause()
