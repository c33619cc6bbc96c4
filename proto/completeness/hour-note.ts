import { type Shortage, shortageKinds } from "./hour-state.ts";

/** The records that an incomplete hour accepted and stored, and its shortages. */
export interface HourNote {
  accepted: number;
  stored: number;
  shortages: Shortage[];
}

/** The most reasons of refused accounts in a note. */
const reasonsMax = 2;

/** Writes the notes of a day by hour (0 to 23), so that 24 of them have less than 1 KB; null for none. */
export const packNotes = (notes: ReadonlyMap<number, HourNote>): string | null => {
  if (notes.size === 0) return null;
  const packed = [...notes].map(([hour, { accepted, stored, shortages }]) => {
    const refused = shortages.filter(({ kind }) => kind === "account_refused");
    const reasons = [...new Set(refused.map(({ reason }) => reason))].slice(0, reasonsMax);
    const kept = [
      ...reasons.map((reason) => [shortageKinds.indexOf("account_refused"), null, reason]),
      ...shortages
        .filter(({ kind }) => kind !== "account_refused")
        .map(({ kind, count }) => [shortageKinds.indexOf(kind), count]),
    ];
    return [hour, [accepted, stored, ...kept]];
  });
  return JSON.stringify(Object.fromEntries(packed));
};

/** Reads what `packNotes` wrote. */
export const unpackNotes = (text: string | null): Map<number, HourNote> => {
  type Packed = [number, number, ...[number, number | null, string?][]];
  const packed = JSON.parse(text ?? "{}") as Record<string, Packed>;
  return new Map(
    Object.entries(packed).map(([hour, [accepted, stored, ...kept]]) => [
      Number(hour),
      {
        accepted,
        stored,
        shortages: kept.flatMap(([index, count, reason]) => {
          const kind = shortageKinds[index];
          return kind === undefined
            ? []
            : [{ kind, count, ...(reason === undefined ? {} : { reason }) }];
        }),
      },
    ]),
  );
};
