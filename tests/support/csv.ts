/** Parses records by RFC 4180, the header among them; lines end in CRLF. */
const recordsOf = (text: string) => {
  const records: string[][] = [[]];
  for (const [, quoted, plain = "", end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g,
  )) {
    records.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === "\r\n") records.push([]);
  }
  return records.filter((record) => record.length > 1);
};

/** Returns a CSV's rows by column name. Throws when a row and the header differ in length. */
export const readCsv = (text: string) => {
  const [names = [], ...records] = recordsOf(text);
  return records.map((record) => {
    if (record.length !== names.length)
      throw new Error(`a row of ${record.length} cells under ${names.length} names`);
    return Object.fromEntries(names.map((name, place) => [name, record[place] ?? ""]));
  });
};
