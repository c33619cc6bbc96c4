import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { type Signer, SignerFault } from "#functions/signer/signer.ts";
import { listenOnLoopback } from "#scripts/ports.ts";
import { decodeSigningRequest, type SigningAnswer } from "./settings.ts";

/** Serves a test's signer to the worker, so that a test can fail or delay the signing of a certificate there too. */
export const serveSigner = async ({ sign }: Signer) => {
  const answerTo = async (body: string): Promise<SigningAnswer> => {
    try {
      return { issued: await sign(decodeSigningRequest(body)) };
    } catch (error) {
      return {
        fault: error instanceof Error ? error.message : "",
        isSignerFault: error instanceof SignerFault,
      };
    }
  };
  const server = createServer((request, response) => {
    void text(request)
      .then(answerTo)
      .then((answer) => response.end(JSON.stringify(answer)));
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
};
