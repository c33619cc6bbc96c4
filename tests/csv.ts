/** Records of a text as RFC 4180 has them, the names of the columns among them; lines end in CRLF. */
const recordsOf = (text: string): string[][] => {
  const records: string[][] = [[]];
  for (const [, quoted, plain = "", end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    records.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === "\r\n") records.push([]);
  }
  return records.filter((record) => record.length > 1);
};

/** A CSV's rows by the names of its columns; throws when a row has more or fewer cells than there are names. */
export const readCsv = (text: string): Record<string, string>[] => {
  const [names = [], ...records] = recordsOf(text);
  return records.map((record) => {
    if (record.length !== names.length) throw new Error(`a row of ${record.length} cells under ${names.length} names`);
    return Object.fromEntries(names.map((name, place) => [name, record[place] ?? ""]));
  });
};
