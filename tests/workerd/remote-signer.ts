import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type Signer, SignerFault } from "#functions/signer/signer.ts";
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
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
};
