import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate, type TLSSocket } from "node:tls";
import { errorCode } from "#kit/describe-error.ts";

/** Returns the options of a connection to a server, whose certificate must have `serverName`, or else the host of its URL. */
export const tlsServer = (url: URL, serverName: string | undefined) => {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const name = serverName ?? host;
  return {
    host,
    port: Number(url.port || 443),
    minVersion: "TLSv1.2" as const,
    // TLS does not allow an address as server name; the check of the certificate still uses it.
    ...(isIP(name) === 0 ? { servername: name } : {}),
    checkServerIdentity: (_host: string, certificate: PeerCertificate) =>
      checkServerIdentity(name, certificate),
  };
};

/** Reports whether an error is a certificate that was not accepted: Node names what OpenSSL says of it, and has `UNSPECIFIED` for the rest. */
export const isUntrusted = (error: unknown): boolean =>
  /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_|INVALID_|PATH_LENGTH_|UNSPECIFIED)/.test(
    errorCode(error) ?? "",
  );

/** Calls `connect` with the option that resumes a TLS session whose server these authorities have verified, if there is one. */
export type ResumeTls = (
  connect: (option: { session?: Buffer }) => TLSSocket,
  authorities?: string,
) => TLSSocket;

/**
 * Creates a function that opens connections to one server, each of which resumes the newest TLS session, at half the cost for both ends. Use it
 * for one set of credentials only: a session is bound to the certificate of its handshake. Nothing verifies the server of a resumed session, so
 * each text of authorities has sessions of its own. A server that does not know the session makes a full handshake. After a failed connection,
 * its session is not used again.
 */
export const createResumeTls = (): ResumeTls => {
  const newest = new Map<string, Buffer>();
  return (connect, authorities = "") => {
    const session = newest.get(authorities);
    newest.delete(authorities);
    const socket = connect(session === undefined ? {} : { session });
    socket.on("session", (sent) => newest.set(authorities, sent));
    // OpenSSL issues no new session when it resumes a recent one: keep that one.
    socket.once("secureConnect", () => {
      if (session && socket.isSessionReused() && !newest.has(authorities))
        newest.set(authorities, session);
    });
    return socket;
  };
};
