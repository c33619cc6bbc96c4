/**
 * Ends only the request or connection whose callback throws. Without this, an error thrown by a listener, a timer or a promise would end the
 * process, and with it all other requests.
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

/** A request or connection, which ends when one of its callbacks throws, or something that a callback started. */
interface Container {
  subject: Subject;
  onFailure: Fail;
}

const containerOf = Symbol("container");
type Contained = Subject & { [containerOf]?: Container };

const running = new AsyncLocalStorage<Container>();

/**
 * Passes errors that callbacks of a server's requests and connections throw to `onFailure`, and ends that request, or the connection if there is
 * none. Callbacks that run later, such as timers, also need `drainOnEscape`.
 */
export const containFailures = (server: EventEmitter, onFailure: Fail): void => {
  const emit = server.emit;
  server.emit = (...event) => {
    const [first, ...others] = event.filter(isSubject);
    if (first === undefined) return emit.apply(server, event);
    const subject: Contained = first.stream ?? first;
    const container = contain(subject, { subject, onFailure });
    for (const other of others) contain(other, container);
    return running.run(container, emitContained, container, { emit, emitter: server, event });
  };
};

/** Sets a property: for thousands of pipelined requests that costs less than a closure and a WeakMap entry each. */
const contain = (subject: Contained, container: Container): Container => {
  const known = subject[containerOf];
  if (known !== undefined) return known;
  subject[containerOf] = container;
  if (!Object.hasOwn(subject, "emit")) subject.emit = emitOfPrototype;
  else {
    const { emit } = subject;
    subject.emit = (...event) =>
      running.run(container, emitContained, container, { emit, emitter: subject, event });
  }
  return container;
};

function emitOfPrototype(this: Contained, ...event: Parameters<EventEmitter["emit"]>): boolean {
  const { emit } = Object.getPrototypeOf(this) as EventEmitter;
  const container = this[containerOf];
  if (container === undefined) return emit.apply(this, event);
  return running.run(container, emitContained, container, { emit, emitter: this, event });
}

type Emission = {
  emit: EventEmitter["emit"];
  emitter: EventEmitter;
  event: Parameters<EventEmitter["emit"]>;
};

const emitContained = (container: Container, { emit, emitter, event }: Emission) => {
  try {
    return emit.apply(emitter, event);
  } catch (error) {
    end(container, error);
    return true;
  }
};

const end = ({ subject, onFailure }: Container, error: unknown) => {
  onFailure(error);
  subject.on("error", () => undefined);
  // Also closes a request that has ended, because its response may be missing.
  if (subject.rstCode === undefined) (subject.socket ?? subject).destroy();
  else subject.close?.(internalError);
};

const isSubject = (value: unknown): value is Subject =>
  typeof value === "object" && value !== null && "emit" in value && "destroy" in value;

/** Longer than any program needs to stop. */
const drainMsMax = 330_000;

/**
 * Runs a program until it has stopped, and returns whether an error escaped. An error that a request or connection of `containFailures` caused
 * ends only that. Any other uncaught error escapes: it is logged, and stops the program as SIGTERM does.
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
  const receive: Fail = (error) => {
    const container = running.getStore();
    if (container === undefined) stop(error);
    else end(container, error);
  };
  process.on("uncaughtException", receive);
  try {
    await run();
    return hasEscaped;
  } finally {
    process.off("uncaughtException", receive);
  }
};
