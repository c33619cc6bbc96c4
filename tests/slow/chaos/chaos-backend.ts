import { systemClock } from "#kit/clock.ts";
import { spansOf } from "#tests/collector/support/otlp.ts";
import {
  logRecordsOf,
  type OtlpAnswer,
  type OtlpCall,
  startOtlpBackend,
} from "#tests/support/ingest/otlp-backend.ts";

/** An item of a request: a log record by its `log.record.uid`, or a span by its name. */
export interface ExportedItem {
  key: string;
  bytes: number;
}

/** How a backend answers a request, after how long, and what it stores of it: all of an accepted one unless given. */
export interface BackendAnswer {
  answer: OtlpAnswer;
  afterMs?: number;
  stores?: readonly ExportedItem[];
}

/** A backend that counts what it stores, and fails as backends do. */
export interface ChaosBackend {
  url: string;
  /** Answers each request so; with null accepts it. */
  answerWith(answer: ((items: readonly ExportedItem[]) => BackendAnswer) | null): void;
  /** The times at which it accepted requests, in ms of `performance.now()`. */
  acceptTimes: readonly number[];
  /** How often it stored each item. */
  stored: ReadonlyMap<string, number>;
  /** What it stored again since the last call. */
  repeats(): { items: number; bytes: number; timesMax: number };
  close(): Promise<void>;
}

/** Starts one. */
export const startChaosBackend = async (): Promise<ChaosBackend> => {
  const backend = await startOtlpBackend();
  let answerWith: Parameters<ChaosBackend["answerWith"]>[0] = null;
  const stored = new Map<string, number>();
  let since = new Map<string, number>();
  let repeated = { items: 0, bytes: 0 };
  const acceptTimes: number[] = [];
  const store = (items: readonly ExportedItem[]): void => {
    for (const { key, bytes } of items) {
      const times = stored.get(key) ?? 0;
      stored.set(key, times + 1);
      since.set(key, (since.get(key) ?? 0) + 1);
      if (times > 0) repeated = { items: repeated.items + 1, bytes: repeated.bytes + bytes };
    }
  };
  backend.answer = async (call) => {
    // Their bodies would fill the memory.
    backend.calls.length = backend.accepted.length = 0;
    const items = itemsOf(call);
    const {
      answer,
      afterMs = 0,
      stores = answer === "accept" ? items : [],
    } = answerWith?.(items) ?? {
      answer: "accept",
    };
    store(stores);
    await systemClock.sleep(afterMs);
    if (answer === "accept") acceptTimes.push(performance.now());
    return answer;
  };
  return {
    url: backend.httpUrl,
    answerWith: (answer) => {
      answerWith = answer;
    },
    acceptTimes,
    stored,
    repeats() {
      const found = {
        ...repeated,
        timesMax: [...since.values()].reduce((most, times) => Math.max(most, times), 0),
      };
      repeated = { items: 0, bytes: 0 };
      since = new Map();
      return found;
    },
    close: () => backend.close(),
  };
};

const itemsOf = ({ signal, body }: OtlpCall): ExportedItem[] =>
  signal === "traces"
    ? spansOf(body).map(({ name }) => ({ key: name, bytes: name.length }))
    : logRecordsOf(body).map(({ record }) => ({
        key: String(
          record.attributes.find(({ key }) => key === "log.record.uid")?.value?.value.value,
        ),
        bytes: String(record.body?.value.value).length,
      }));
