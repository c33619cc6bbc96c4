/**
 * Ends a request or a connection whose callback throws, and nothing else. Node reports what a listener, a timer or a promise throws to no
 * handler of ours: it would end the process, and with it the requests of all others.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { EventEmitter } from "node:events";

type Fail = (error: unknown) => void;

/** A socket, a session, a stream, or a request or response of HTTP; the latter two have a `stream` with HTTP/2. */
interface Subject extends EventEmitter {
  destroy(): unknown;
  stream?: Subject;
  socket?: Subject | null;
  rstCode?: number;
  close?(code: number): unknown;
}

const internalError = 2;

/** Ends the subject whose callback runs, or started what runs. */
const running = new AsyncLocalStorage<Fail>();

/**
 * Passes what a callback of a server's requests and connections throws to `onFailure`, and ends that request, or the connection if there is
 * none. For callbacks that run later it takes `drainOnEscape`.
 */
export const containFailures = (server: EventEmitter, onFailure: Fail): void => {
  const fails = new WeakMap<Subject, Fail>();
  const contain = (subject: Subject, own?: Fail): Fail => {
    const known = fails.get(subject);
    if (known !== undefined) return known;
    const fail = own ?? failOf(subject, onFailure);
    fails.set(subject, fail);
    const emit = subject.emit;
    subject.emit = (...event) => runContained(fail, () => emit.apply(subject, event));
    return fail;
  };
  const emit = server.emit;
  server.emit = (...event) => {
    const [subject, ...others] = event.filter(isSubject);
    if (subject === undefined) return emit.apply(server, event);
    const fail = contain(subject.stream ?? subject);
    for (const other of others) contain(other, fail);
    return runContained(fail, () => emit.apply(server, event));
  };
};

const runContained = (fail: Fail, emit: () => boolean): boolean =>
  running.run(fail, () => {
    try {
      return emit();
    } catch (error) {
      fail(error);
      return true;
    }
  });

const failOf =
  (subject: Subject, onFailure: Fail): Fail =>
  (error) => {
    onFailure(error);
    subject.on("error", () => undefined);
    // A request that is closed already can still lack its answer.
    if (subject.rstCode === undefined) (subject.socket ?? subject).destroy();
    else subject.close?.(internalError);
  };

const isSubject = (value: unknown): value is Subject =>
  typeof value === "object" && value !== null && "emit" in value && "destroy" in value;

/** Longer than any program takes to stop. */
const drainMsMax = 330_000;

/**
 * Runs a program until it has stopped, and returns whether an error escaped. What escapes from a request or connection of
 * `containFailures` ends that. Anything else is logged, and stops the program as SIGTERM does.
 */
export const drainOnEscape = async (
  log: { error(fields: object, message: string): void },
  run: () => Promise<void>,
): Promise<boolean> => {
  let hasEscaped = false;
  const stop: Fail = (err) => {
    log.error({ err }, "an error escaped, and stops the program");
    if (hasEscaped) return;
    hasEscaped = true;
    setTimeout(() => process.exit(1), drainMsMax).unref();
    if (!process.emit("SIGTERM", "SIGTERM")) process.exit(1);
  };
  const receive: Fail = (error) => (running.getStore() ?? stop)(error);
  process.on("uncaughtException", receive);
  try {
    await run();
    return hasEscaped;
  } finally {
    process.off("uncaughtException", receive);
  }
};
