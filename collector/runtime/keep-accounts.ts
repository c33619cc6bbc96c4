import { type Clock, hourMs } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import type { ForwarderStatus } from "../forward/forwarder.ts";
import type { Credentials } from "../identity/credentials.ts";
import { signBytes } from "../management/signed-request.ts";
import { observeMs } from "../queue/period.ts";
import type { Queue } from "../queue/queue.ts";

/** What keeping accounts needs. */
interface KeepAccountsOptions {
  queue: Pick<Queue, "accounts">;
  clock: Clock;
  /** Returns those that the collector runs with now. */
  credentials(): Pick<Credentials, "identity" | "fingerprintSha256" | "privateKey">;
  log: Pick<Log, "warn">;
}

/** Writes and signs the accounts of a queue at the end of each hour, until the signal aborts. */
export const keepAccounts = async (
  options: KeepAccountsOptions,
  signal: AbortSignal,
): Promise<void> => {
  const { queue, clock } = options;
  while (!signal.aborted) {
    attempt(options, () => queue.accounts.observe());
    // A millisecond later, so that the hour is over by then.
    await clock
      .sleep(Math.min(observeMs, hourMs - (clock.now() % hourMs) + 1), signal)
      .catch(() => undefined);
  }
};

const drainPollMs = 20;

/** Writes and signs the last account before a stop. If nothing of the queue is sent later (`isEnding`), it ends the queue unless records are left. */
export const endAccounts = (options: KeepAccountsOptions, isEnding = false): void => {
  const { accounts } = options.queue;
  attempt(options, () => (isEnding && accounts.end()) || accounts.stop());
};

/** As `endAccounts`, and waits for up to `waitMs` while a connected forwarder empties the queue. */
export const drainAccounts = async (
  options: KeepAccountsOptions & { queue: Pick<Queue, "stats"> },
  {
    forwarder,
    isEnding,
    waitMs,
  }: {
    forwarder(): Pick<ForwarderStatus, "connected" | "takesAccounts"> | undefined;
    isEnding: boolean;
    waitMs: number;
  },
): Promise<void> => {
  const { queue, clock } = options;
  const endMs = clock.monotonic() + waitMs;
  const hasUnsent = () => {
    const { connected = false, takesAccounts = false } = forwarder() ?? {};
    const isDue = takesAccounts && queue.accounts.pendingThrough() !== undefined;
    return connected && (isDue || queue.stats().records > 0);
  };
  const drain = async () => {
    while (hasUnsent() && clock.monotonic() < endMs) await clock.sleep(drainPollMs);
  };
  attempt(options, () => undefined);
  if (isEnding) await drain();
  endAccounts(options, isEnding);
  await drain();
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
