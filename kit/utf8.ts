/** Decodes UTF-8 and keeps a byte order mark. Throws a `TypeError` for bytes that are none. */
export const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
