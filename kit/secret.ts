const redacted = "[redacted]";

/** A value that no log line, error or JSON document shows: only `reveal` gives it out. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself. Call it where it is used, and keep the result out of every message. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return redacted;
  }

  toJSON(): string {
    return redacted;
  }

  /** What `console.log` and `util.inspect` print. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return redacted;
  }
}
