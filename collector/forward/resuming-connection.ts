import { isIP } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";

/**
 * Makes TLS connections to one server that resume the session of the one before, at half the cost for both ends; where the server
 * does not remember it, the handshake is a full one. For one pair only: a session speaks for the certificate that it was made with.
 */
export const createResumingConnection = (
  url: URL,
  options: Pick<ConnectionOptions, "cert" | "key" | "ca" | "minVersion"> & { servername?: string },
): (() => TLSSocket) => {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(url.port || 443);
  let session: Buffer | undefined;
  return () => {
    const servername = options.servername ?? (isIP(host) === 0 ? host : undefined);
    const socket = connect({
      ...options,
      host,
      port,
      ALPNProtocols: ["h2"],
      ...(servername === undefined ? {} : { servername }),
      ...(session === undefined ? {} : { session }),
    });
    // Used once: what comes of it brings its own successor.
    session = undefined;
    socket.on("session", (fresh) => {
      session = fresh;
    });
    return socket;
  };
};
