"""The same as certificate_peer.c's `ask`, by pyzmq, whose reader of certificates is its own.

usage: pyzmq_peer.py CERTIFICATE SERVER-CERTIFICATE ENDPOINT
  prints what comes back for "hello", or "nothing"; exit status 77: pyzmq is not there"""

import sys

try:
    import zmq
    import zmq.auth
except ImportError as why:
    print(why)
    sys.exit(77)


def main():
    own, server, endpoint = sys.argv[1:]
    context = zmq.Context()
    socket = context.socket(zmq.REQ)
    socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate(own)
    socket.curve_serverkey = zmq.auth.load_certificate(server)[0]
    socket.linger, socket.rcvtimeo = 0, 60000
    socket.connect(endpoint)
    socket.send(b"hello")
    try:
        print(socket.recv().decode())
    except zmq.Again:
        print("nothing")
    socket.close()
    context.term()


main()
