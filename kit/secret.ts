const redacted = "[redacted]";

/** A value that prints as `[redacted]` in logs, errors and JSON; only `reveal` returns it. The file that it comes from may replace it. */
export class Secret<Value = string> {
  #value: Value;

  constructor(value: Value) {
    this.#value = value;
  }

  /** Returns the newest value. Call it where and when the value is used, and keep the result out of every message. */
  reveal(): Value {
    return this.#value;
  }

  /** Takes the value of `newer`, which was read from the same variable. */
  replaceBy(newer: Secret<Value>): void {
    this.#value = newer.#value;
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
