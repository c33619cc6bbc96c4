import * as v from "valibot";
import { Identifier } from "../../proto/management/text.ts";
import { webSessionId } from "../../proto/operator/bridge-token.ts";
import { Id } from "../../proto/values.ts";

/** The parameter of `/{id}`. */
export const IdParams = v.object({ id: Id });

/** Text of an operator: up to `charactersMax` characters, with line feeds and tabs and no other control characters. */
export const Prose = (charactersMax: number) =>
  v.pipe(
    v.string("must be a string"),
    v.maxLength(charactersMax, `must be at most ${charactersMax} characters`),
    v.check((text) => Array.from(text).every((character) => !isControl(character)), "must not hold control characters"),
    v.check((text) => text.isWellFormed(), "must be well-formed Unicode"),
  );

const isControl = (character: string): boolean => {
  const code = character.codePointAt(0) ?? 0;
  return (code < 0x20 && code !== 0x0a && code !== 0x09) || (code >= 0x7f && code < 0xa0);
};

/** An integer from `min` to 2^53 - 1. */
export const Count = (min = 0) =>
  v.pipe(
    v.number("must be an integer"),
    v.check((value) => Number.isSafeInteger(value), "must be an integer within 2^53 - 1"),
    v.minValue(min, `must be at least ${min}`),
  );

/** The code of a reason, for the audit log. */
export const ReasonCode = v.pipe(
  v.string("must be a string"),
  v.regex(/^[a-z][a-z0-9_]{0,63}$/, "must match ^[a-z][a-z0-9_]{0,63}$"),
);

/** The reason of an operator's change, for the audit log. */
export const ReasonBody = v.strictObject({ reason_code: v.optional(ReasonCode) });

/** A name of an operator's choice: 1 to 120 characters. */
export const Name = Identifier(120);

/** The address of a caller, as web saw it. */
export const RemoteAddress = v.pipe(v.string("must be an IP address"), v.ip("must be an IP address"));

/** The id of a session at web. */
export const WebSessionId = v.pipe(v.string(), v.regex(webSessionId, "must be the id of a session at web"));
