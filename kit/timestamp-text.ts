/** The digits that complete the fraction of a second to milliseconds, by where the time zone begins. */
const endings = new Map([
  [19, ".000Z"],
  [21, "00Z"],
  [22, "0Z"],
  [23, "Z"],
]);

/**
 * Returns a `timestamptz`, as a session in UTC writes it, as RFC 3339 in UTC with milliseconds. Throws for `infinity`. Rearranges the text:
 * `Date` takes a microsecond to parse PostgreSQL's form, and a row of the report has ten.
 */
export const timestampOf = (text: string): string => {
  const zoneAt = text.length - 3;
  const ending = endings.get(zoneAt);
  return ending !== undefined && text[10] === " " && text.endsWith("+00")
    ? `${text.slice(0, 10)}T${text.slice(11, zoneAt)}${ending}`
    : new Date(text).toISOString();
};
