import { connect } from "node:net";
import { pipeline } from "node:stream";
import { createServer } from "node:tls";
import { listenOnLoopback } from "#scripts/ports.ts";
import { readCredentialFiles } from "../ca/pki.ts";
import { startLabEdge } from "../core-process.ts";
import { startDirectoryApi } from "../directory-api.ts";
import { labAccounts, startIdentityProvider } from "../identity-provider.ts";
import { labPki, ports, secretsFolder } from "./lab-files.ts";

const everywhere = "0.0.0.0";

/** Serves the directory with the demo's people over TLS, and writes the key of a service account that may read it. */
export const serveDirectory = async (): Promise<void> => {
  const directory = await startDirectoryApi({ publicUrl: `https://directory:${ports.directory}` });
  await directory.writeKeyFile(secretsFolder);
  const { port, hostname: host } = new URL(directory.url);
  const server = createServer(await readCredentialFiles(labPki.edge), (socket) => {
    const upstream = connect({ host, port: Number(port) });
    pipeline(socket, upstream, () => undefined);
    pipeline(upstream, socket, () => undefined);
  });
  // A health check that connects without a handshake.
  server.on("tlsClientError", () => undefined);
  await listenOnLoopback(server, ports.directory, everywhere);
};

/** Serves the identity provider at the address `ISSUER` for the web at `WEB_ORIGIN`. */
export const serveIdentityProvider = async (): Promise<void> => {
  const { ISSUER: issuer = "", WEB_ORIGIN: webOrigin = "" } = process.env;
  await startIdentityProvider({
    accounts: labAccounts,
    webOrigins: [webOrigin],
    at: { issuer, port: Number(new URL(issuer).port), host: everywhere },
  });
};

/** Serves the TLS edge in front of core. */
export const serveEdge = async (): Promise<void> => {
  await startLabEdge(labPki, { coreUrl: "http://core:8080", port: ports.edge, host: everywhere });
};
