import type { TLSSocket } from "node:tls";

/** Opens a TLS connection with an option that resumes a session, if there is one. */
export type ResumeTls = (connect: (option: { session?: Buffer }) => TLSSocket) => TLSSocket;

/**
 * Creates a function that opens connections to one server, each of which resumes the newest TLS session: half the cost for both ends.
 * For one set of credentials only: a session is bound to the certificate of its handshake. A server that does not know the session makes
 * a full handshake; a session with which no connection came about is not used again.
 */
export const createResumeTls = (): ResumeTls => {
  let newest: Buffer | undefined;
  return (connect) => {
    const session = newest;
    newest = undefined;
    const socket = connect(session === undefined ? {} : { session });
    socket.on("session", (sent) => {
      newest = sent;
    });
    // OpenSSL sends no new session when it resumes one that is not old: that one serves again.
    socket.once("secureConnect", () => {
      if (socket.isSessionReused()) newest ??= session;
    });
    return socket;
  };
};
