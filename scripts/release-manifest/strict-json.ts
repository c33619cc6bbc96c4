import { parseDocument } from "yaml";
import { strictUtf8 } from "#kit/utf8.ts";
import { ReleaseFailure } from "./release-failure.ts";

/**
 * Parses JSON (RFC 8259, UTF-8 without a byte order mark). Throws `ReleaseFailure` with exit code 65 for anything else and for a repeated
 * key, of which `JSON.parse` silently keeps the last.
 */
export const parseStrictJson = (bytes: Uint8Array, name: string): unknown => {
  const invalid = (fault: string) =>
    new ReleaseFailure("specInvalid", `${name} is not valid: ${fault}`);
  let text: string;
  try {
    text = strictUtf8.decode(bytes);
  } catch {
    throw invalid("it is not UTF-8");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid("it is not JSON");
  }
  const error = firstErrorIn(text);
  if (error === "unreadable") throw invalid("it cannot be read");
  if (error === undefined) return value;
  const [at] = error.linePos ?? [];
  const where = at === undefined ? "" : ` at line ${at.line}, column ${at.col}`;
  throw invalid(
    error.code === "DUPLICATE_KEY" ? `a key is repeated${where}` : `it cannot be read${where}`,
  );
};

/** YAML contains JSON, and its parser knows where each key is. Any error of it would leave a part unread. */
const firstErrorIn = (text: string) => {
  try {
    return parseDocument(text, { schema: "json", uniqueKeys: true }).errors[0];
  } catch {
    // Nested too deeply.
    return "unreadable";
  }
};
