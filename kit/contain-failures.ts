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

/** A request or connection. It ends when one of its callbacks, or something that a callback started, throws. */
interface Container {
  subject: Subject;
  onFailure: Fail;
}

const containerOf = Symbol("container");
type Contained = Subject & { [containerOf]?: Container };

const running = new AsyncLocalStorage<Container>();

/**
 * Passes what a callback of a server's requests and connections throws to `onFailure`, and ends that request, or the connection if there is
 * none. For callbacks that run later it takes `drainOnEscape`.
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

/** A pipeline brings thousands of requests at once: a property costs each less than a closure and an entry of a WeakMap. */
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
