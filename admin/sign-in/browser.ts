import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { sha256 } from "#kit/bytes.ts";
import { minuteMs } from "#kit/clock.ts";
import { toBase64url } from "#proto/values.ts";
import { signInError } from "../terminal/exit-codes.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { clientName, granted, requestToken, type Token } from "./token-endpoint.ts";

const waitMs = 5 * minuteMs;
/** Completes the path and query of a request to a URL. */
const base = "http://127.0.0.1";

/**
 * Signs in by the authorization code flow with PKCE (RFC 7636) and a redirect to this machine's loopback interface (RFC 8252). Throws
 * when the person refuses, after five minutes, and for an answer to another attempt.
 */
export const signInByBrowser = async (terminal: Terminal, url: string): Promise<Token> => {
  const { clock, entropy, err } = terminal;
  const random = () => toBase64url(entropy.bytes(32));
  const codeVerifier = random();
  const state = random();
  const challenge = toBase64url(await sha256(codeVerifier));

  const listener = await listenForAnswer(state);
  try {
    const redirectUri = `http://127.0.0.1:${listener.port}/callback`;
    const query = new URLSearchParams({
      response_type: "code",
      client_id: "svc-admin",
      redirect_uri: redirectUri,
      code_challenge: challenge,
      code_challenge_method: "S256",
      state,
      client_name: clientName(terminal),
    });
    const address = `${url}/cli/authorize?${query}`;
    err.write(`Open this address to sign in, if no browser opens by itself:\n\n  ${address}\n\n`);
    terminal.openBrowser(address);
    const timedOut = clock
      .sleep(waitMs, AbortSignal.any([terminal.signal, listener.answered]))
      .then(() => {
        throw signInError("nobody allowed the sign-in within five minutes");
      });
    const answer = await Promise.race([listener.answer, timedOut]);
    const code = answer.get("code");
    if (code === null) throw signInError("you refused the sign-in");
    const grant = {
      grant_type: "authorization_code",
      code,
      code_verifier: codeVerifier,
      redirect_uri: redirectUri,
    };
    return granted(await requestToken(terminal, url, grant));
  } finally {
    listener.close();
  }
};

/** Listens on a free port of the loopback interface for the answer with this `state`; any other request gets 400 and is ignored. */
const listenForAnswer = async (state: string) => {
  const { promise: answer, resolve } = Promise.withResolvers<URLSearchParams>();
  const answered = new AbortController();
  const server = createServer((request, response) => {
    const { pathname, searchParams } = URL.parse(request.url ?? "/", base) ?? new URL(base);
    const ours =
      request.method === "GET" && pathname === "/callback" && searchParams.get("state") === state;
    response.writeHead(ours ? 200 : 400, {
      "Content-Type": "text/plain; charset=utf-8",
      Connection: "close",
    });
    response.end(
      ours
        ? "You can close this page and go back to the terminal.\n"
        : "This is not the expected answer.\n",
    );
    if (!ours) return;
    answered.abort();
    resolve(searchParams);
  });
  await new Promise<void>((done, fail) => {
    server.once("error", fail);
    server.listen(0, "127.0.0.1", done);
  });
  return {
    port: (server.address() as AddressInfo).port,
    answer,
    answered: answered.signal,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
};
