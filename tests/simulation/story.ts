/** A history for a reader: what is out of the ordinary, line by line, and a count of the rest. */
import type { Course } from "./plan.ts";
import type { Outcome } from "./simulate.ts";
import type { Note } from "./world.ts";

const timeOf = (at: number): string => `${(at / 1000).toFixed(3).padStart(8)} s`;

/** Returns every note, a line each. */
export const traceOf = (notes: readonly Note[]): string[] =>
  notes.map(({ at, text }) => `${timeOf(at)}  ${text}`);

/** How many routine notes stand before and after one that is out of the ordinary. */
const contextNotes = 2;

/** Returns the notes that are out of the ordinary and the routine ones next to them; counts the others. */
export const storyOf = (notes: readonly Note[]): string[] => {
  const lines: string[] = [];
  const isNear = (index: number) =>
    notes
      .slice(Math.max(0, index - contextNotes), index + contextNotes + 1)
      .some(({ isRoutine }) => !isRoutine);
  let skipped = 0;
  const count = () => {
    if (skipped > 0) lines.push(`${" ".repeat(12)}… ${skipped} routine steps`);
    skipped = 0;
  };
  for (const [index, note] of notes.entries()) {
    if (!isNear(index)) {
      skipped += 1;
      continue;
    }
    count();
    lines.push(...traceOf([note]));
  }
  count();
  return lines;
};

/** Returns the command that runs a history again. */
export const commandOf = (course: Course, plant?: string): string =>
  [
    `bun run simulate -- --seed ${course.seed}`,
    plant === undefined ? "" : `--plant ${JSON.stringify(plant)}`,
    course.faults === undefined ? "" : `--faults ${course.faults.join(",") || "none"}`,
    course.hosts === undefined ? "" : `--hosts ${course.hosts}`,
    course.cores === undefined ? "" : `--cores ${course.cores}`,
    course.untilMs === undefined ? "" : `--until ${course.untilMs}`,
    course.variation === undefined ? "" : `--variation ${course.variation}`,
  ]
    .filter((part) => part !== "")
    .join(" ");

/** Returns what broke in a history, and how to run it again. */
export const reportOf = (
  { course, digest, injected, breaches, notes }: Outcome,
  plant?: string,
): string[] => [
  `${commandOf(course, plant)}   # digest ${digest}`,
  ...injected.map(({ at, name }) => `  ${timeOf(at)}  ${name}`),
  ...breaches.map(({ law, detail }) => `  BROKEN  ${law}: ${detail}`),
  ...storyOf(notes).map((line) => `  ${line}`),
];
