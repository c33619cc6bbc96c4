/** A structured log; fields come first. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * Escapes U+0085, U+2028 and U+2029 in a line of JSON, so that it is one line to every reader: JSON does not escape them, and some readers end a
 * line there (I5).
 */
export const oneLine = (json: string): string =>
  json.replace(
    /[\u0085\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
