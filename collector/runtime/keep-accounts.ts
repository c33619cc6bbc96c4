import { type Clock, hourMs } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Credentials } from "../identity/credentials.ts";
import { signBytes } from "../management/signed-request.ts";
import { observeMs } from "../queue/period.ts";
import type { Queue } from "../queue/queue.ts";

/** What keeping accounts needs. */
export interface KeepAccountsOptions {
  queue: Pick<Queue, "accounts">;
  clock: Clock;
  /** Returns those that the collector runs with now. */
  credentials(): Pick<Credentials, "identity" | "fingerprintSha256" | "privateKey">;
  log: Pick<Log, "warn">;
}

/** Writes and signs the accounts of a queue at the end of each hour, until the signal aborts. */
export const keepAccounts = async (options: KeepAccountsOptions, signal: AbortSignal): Promise<void> => {
  const { queue, clock } = options;
  while (!signal.aborted) {
    attempt(options, () => queue.accounts.observe());
    // A millisecond later, so that the hour is over by then.
    await clock.sleep(Math.min(observeMs, hourMs - (clock.now() % hourMs) + 1), signal).catch(() => undefined);
  }
};

/** Writes and signs the last account before a stop. */
export const endAccounts = (options: KeepAccountsOptions): void => {
  attempt(options, () => options.queue.accounts.stop());
};

/** Nothing is lost if it fails: what is not written or signed now is with the next attempt. */
const attempt = (options: KeepAccountsOptions, act: () => void): void => {
  try {
    act();
    sealAccounts(options);
  } catch (error) {
    options.log.warn({ err: error }, "the account of this hour cannot be written; retrying");
  }
};

const sealAccounts = ({ queue, credentials }: KeepAccountsOptions): void => {
  const { identity, fingerprintSha256, privateKey } = credentials();
  queue.accounts.seal({
    hostId: identity,
    certificateSha256: Uint8Array.fromHex(fingerprintSha256),
    sign: (payload) => signBytes(privateKey, payload),
  });
};
