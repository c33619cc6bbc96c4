import { readFileSync } from "node:fs";
import { connectFleet, type FleetClient } from "#client/index.ts";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { signInError, usageError } from "./exit-codes.ts";
import { readSession, sessionPath } from "./session-file.ts";
import type { Terminal } from "./terminal.ts";

/** Returns `--url`, `SVC_ADMIN_URL` or the address of the session, without a slash at its end. Throws for one that leaks a token. */
export const fleetUrl = (terminal: Pick<Terminal, "env">, given: string | undefined): string => {
  const url = given ?? terminal.env.SVC_ADMIN_URL ?? readSession(sessionPath(terminal.env))?.url;
  if (url === undefined || url === "")
    throw usageError("name the fleet: --url https://fleet.example.com, or SVC_ADMIN_URL");
  if (!isConfidentialUrl(url))
    throw usageError("the address must be https://, or http:// of this machine");
  return url.replace(/\/+$/, "");
};

/** Connects with `SVC_ADMIN_TOKEN_FILE`, else with the session of `svc-admin login`. Throws when neither is there or valid. */
export const connect = (terminal: Terminal, { url: given }: { url?: string }): FleetClient => {
  const { env, clock } = terminal;
  const baseUrl = fleetUrl(terminal, given);
  const file = env.SVC_ADMIN_TOKEN_FILE;
  const bearer = file ? () => readToken(file) : sessionToken(env, baseUrl, clock.now());
  return connectWithToken(terminal, baseUrl, bearer);
};

/** Connects with this token, whatever the environment names. */
export const connectWithToken = (
  { fetch, signal }: Pick<Terminal, "fetch" | "signal">,
  baseUrl: string,
  bearer: string | (() => string),
): FleetClient => {
  // An interrupted command does not wait for core.
  const interruptible: typeof fetch = (input, init) => fetch(input, { ...init, signal });
  return connectFleet({ baseUrl, bearer, fetch: interruptible, throwOnError: true });
};

/** Read for each request: a job that rotates tokens replaces the file. */
const readToken = (file: string) => {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw signInError("SVC_ADMIN_TOKEN_FILE cannot be read", {
      cause,
    });
  }
};

const sessionToken = (env: Terminal["env"], baseUrl: string, now: number) => {
  const session = readSession(sessionPath(env));
  const signIn = `svc-admin login --url ${baseUrl}`;
  if (session === null) throw signInError(`you are not signed in: ${signIn}`);
  // The token of one fleet is never sent to another.
  if (session.url !== baseUrl) throw signInError(`you are signed in to ${session.url}: ${signIn}`);
  if (Date.parse(session.expires_at) <= now)
    throw signInError(`your session has expired: ${signIn}`);
  return session.access_token;
};
