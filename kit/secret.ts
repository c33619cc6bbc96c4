const redacted = "[redacted]";

/** A value that prints as `[redacted]` in logs, errors and JSON; only `reveal` returns it. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** Returns the value. Call it where the value is used, and keep the result out of every message. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return redacted;
  }

  toJSON(): string {
    return redacted;
  }

  /** Returns the text that `console.log` and `util.inspect` print. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return redacted;
  }
}
