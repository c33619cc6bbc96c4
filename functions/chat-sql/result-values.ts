/** The types of results by their OID in PostgreSQL's catalog. */
const typeNames: Readonly<Record<number, string>> = {
  16: "boolean",
  17: "bytea",
  20: "bigint",
  21: "smallint",
  23: "integer",
  25: "text",
  114: "json",
  650: "cidr",
  700: "real",
  701: "double precision",
  869: "inet",
  1000: "boolean[]",
  1005: "smallint[]",
  1007: "integer[]",
  1009: "text[]",
  1016: "bigint[]",
  1022: "double precision[]",
  1042: "character",
  1043: "text",
  1082: "date",
  1083: "time",
  1114: "timestamp",
  1184: "timestamptz",
  1185: "timestamptz[]",
  1186: "interval",
  1231: "numeric[]",
  1700: "numeric",
  2249: "record",
  2950: "uuid",
  2951: "uuid[]",
  3802: "jsonb",
};

/** Returns the name of a type. */
export const typeName = (oid: number): string => typeNames[oid] ?? "other";

/** Elements of arrays, by the array's type. */
const elementTypes: Readonly<Record<number, number>> = {
  1000: 16,
  1005: 21,
  1007: 23,
  1009: 25,
  1016: 20,
  1022: 701,
  1185: 1184,
  1231: 1700,
  2951: 2950,
};

/** Returns a value, given in PostgreSQL's text form, as JSON has it: a number that a double cannot hold exactly stays text. */
export const readResultValue = (oid: number, text: string): unknown => {
  switch (oid) {
    case 16:
      return text === "t";
    case 20:
    case 21:
    case 23:
    case 700:
    case 701:
    case 1700:
      return numberOf(text);
    case 114:
    case 3802:
      return JSON.parse(text);
    case 1184:
      return timestampOf(text);
    default: {
      const element = elementTypes[oid];
      return element === undefined ? text : arrayOf(text, element);
    }
  }
};

const numberOf = (text: string): number | string => {
  const value = Number(text);
  const isExact =
    Number.isFinite(value) &&
    (!Number.isInteger(value) || Number.isSafeInteger(value)) &&
    text.length <= 17;
  return isExact ? value : text;
};

/** RFC 3339 in UTC; `infinity` and years that it cannot express stay as they are. */
const timestampOf = (text: string): string => {
  const [matched, day, time, fraction = ""] =
    /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?\+00$/.exec(text) ?? [];
  return matched === undefined ? text : `${day}T${time}${fraction}Z`;
};

/** Reads the literal of an array of one dimension; one of more stays text. */
const arrayOf = (literal: string, element: number): unknown => {
  if (!literal.startsWith("{") || literal.startsWith("{{")) return literal;
  return Array.from(
    literal.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs),
    ([, quoted, plain = ""]) => {
      if (quoted === undefined) return plain === "NULL" ? null : readResultValue(element, plain);
      return readResultValue(element, quoted.replace(/\\(.)/gs, "$1"));
    },
  );
};
