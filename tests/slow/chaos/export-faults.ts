import { systemClock } from "#kit/clock.ts";
import type { BackendAnswer, ExportedItem } from "./chaos-backend.ts";
import { exportTimeoutMs, exportTimesMax } from "./exported.ts";
import { type Fault, seconds } from "./fault.ts";

type Answer = (items: readonly ExportedItem[]) => BackendAnswer;

const accept: BackendAnswer = { answer: "accept" };
const text = (word: string) => new TextEncoder().encode(word);
const unavailable: readonly Answer[] = [
  () => ({ answer: { http: 503, headers: { "retry-after": "1" } } }),
  () => ({ answer: { http: 429, headers: { "retry-after": "1" } } }),
  () => ({ answer: "reset" }),
  () => ({ answer: "hang" }),
];

const isPoison = ({ key }: ExportedItem) => key.endsWith("77");
/** A `partial_success` that rejects so many items: "too old". */
const partial = (items: number) => Uint8Array.of(10, 11, 8, items, 18, 7, ...text("too old"));

/** Lets the backend answer so for a while, by one of these that is drawn. */
const answering =
  (answers: readonly Answer[]): Fault["inject"] =>
  async ({ backend }, draw) => {
    const answer = answers[Math.floor(draw * answers.length)] as Answer;
    backend.answerWith(answer);
    await systemClock.sleep(seconds((draw * answers.length) % 1, 2, 8));
    backend.answerWith(null);
  };

/** Collectors and core do not notice what a backend does. */
const apart = {
  touches: ["backend"],
  recoveryMs: { max: 5_000 },
  pause: { of: "each", msMax: 5_000 },
} as const;

/** Faults of the export and its backend. */
export const exportFaults: Readonly<Record<string, Fault>> = {
  "make the backend of the export unavailable": {
    id: "K8",
    ...apart,
    inject: answering(unavailable),
  },
  "answer the export with a page": {
    id: "K8",
    ...apart,
    inject: answering([
      () => ({
        answer: { headers: { "content-type": "text/html" }, body: text("<h1>Sign in</h1>") },
      }),
    ]),
  },
  "reject items of the export": {
    id: "K8",
    ...apart,
    inject: answering([
      (items) => {
        const stores = items.filter((item) => !isPoison(item));
        const rejected = items.length - stores.length;
        return rejected === 0 ? accept : { answer: { body: partial(rejected) }, stores };
      },
      (items) => (items.some(isPoison) ? { answer: { http: 400 } } : accept),
    ]),
  },
  "store what the export sends, and answer too late": {
    id: "K8",
    ...apart,
    repeats: exportTimesMax - 1,
    inject: answering([
      (items) => ({ answer: "accept", afterMs: 1.5 * exportTimeoutMs, stores: items }),
    ]),
  },
  "kill the export (SIGKILL)": {
    id: "K8",
    ...apart,
    touches: ["export"],
    inject: ({ exporter }) => exporter.restart(),
  },
};
