import fc from "fast-check";
import { beforeAll, expect, it } from "vitest";
import {
  createTestReceiptKey,
  signChain,
  type TestEntry,
  type TestReceiptKey,
} from "#tests/support/chat/receipts.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import type { ReceiptFile } from "./receipt.ts";
import { type ReceiptFaultKind, verifyReceipts } from "./verify-receipts.ts";

const sessionId = "01920000-0000-7000-8000-0000000000c1";
const otherSessionId = "01920000-0000-7000-8000-0000000000c2";

let first: TestReceiptKey;
let second: TestReceiptKey;
beforeAll(async () => {
  first = await createTestReceiptKey("first");
  second = await createTestReceiptKey("second");
});

const words = fc.string({ maxLength: 12, unit: "grapheme" });
const callEntries = fc
  .record({
    statement: words,
    rows: fc.array(fc.array(fc.oneof(words, fc.double(), fc.constant(null)))),
  })
  .map(({ statement, rows }): TestEntry[] => [
    {
      kind: "tool_call",
      payload: { message_id: "m", call_id: "c", name: "query_sql", input: { statement } },
    },
    {
      kind: "tool_result",
      payload: { message_id: "m", call_id: "c", result: { kind: "rows", rows: plain(rows) } },
    },
  ]);
const turnEntries = fc
  .record({
    content: words,
    calls: fc.array(callEntries, { maxLength: 2 }),
    text: fc.option(words),
  })
  .map(({ content, calls, text }): TestEntry[] => [
    { kind: "user_message", payload: { message_id: "q", content } },
    ...calls.flat(),
    ...(text === null ? [] : [{ kind: "answer" as const, payload: { message_id: "m", text } }]),
    { kind: "closing", payload: { message_id: "m", status: "complete" } },
  ]);
const chains = fc.array(turnEntries, { minLength: 1, maxLength: 3 }).map((turns) => turns.flat());

const plain = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value));

/** The chain as a file; the second half is signed with a second key, as after a rotation. */
const signed = (entries: readonly TestEntry[], id = sessionId): Promise<ReceiptFile> =>
  signChain(
    id,
    entries.map((entry, at) => (at >= entries.length / 2 ? { ...entry, by: second } : entry)),
    first,
  );

const faultOf = async (file: ReceiptFile, keys = [first.key, second.key]) =>
  (await verifyReceipts(plain(file), keys)).fault;
const hasFault = async (
  seq: number,
  kind: ReceiptFaultKind,
  ...given: Parameters<typeof faultOf>
) => expect(await faultOf(...given)).toEqual({ seq, kind });

const ask = (content: string): TestEntry => ({
  kind: "user_message",
  payload: { message_id: "q", content },
});
const question = ask("one");
const answer: TestEntry = { kind: "answer", payload: { message_id: "m", text: "a" } };
const closing: TestEntry = { kind: "closing", payload: { message_id: "m", status: "complete" } };

/** Every string and number within a value, with the function that replaces it. */
const leavesOf = (value: unknown, set: (replaced: unknown) => void, path: string): Leaf[] => {
  if (typeof value !== "object" || value === null) return [{ path, value, set }];
  return Object.entries(value).flatMap(([name, member]) =>
    leavesOf(
      member,
      (replaced) => {
        (value as Record<string, unknown>)[name] = replaced;
      },
      `${path}.${name}`,
    ),
  );
};
interface Leaf {
  path: string;
  value: unknown;
  set(replaced: unknown): void;
}

/** Returns another value that differs by one character, or by one. */
const altered = (value: unknown, at: number): unknown => {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value + 1 : 0;
  if (typeof value !== "string") return value === null ? 0 : null;
  if (value === "") return "x";
  const index = at % value.length;
  const code = value.charCodeAt(index);
  return value.slice(0, index) + String.fromCharCode(code ^ 1) + value.slice(index + 1);
};

const runs = { numRuns: runsOf(30) };

it("accepts any chain, with the keys of the file and with given ones", () =>
  fc.assert(
    fc.asyncProperty(chains, async (entries) => {
      const file = await signed(entries);
      const turns = entries.filter(({ kind }) => kind === "closing").length;
      const expected = { checked: entries.length, turns, fault: null };
      expect(await verifyReceipts(plain(file))).toEqual(expected);
      expect(await verifyReceipts(plain(file), [second.key, first.key])).toEqual(expected);
    }),
    runs,
  ));

it("accepts a conversation without a turn", async () => {
  expect(await verifyReceipts(await signed([]))).toEqual({ checked: 0, turns: 0, fault: null });
});

it("T5: one character changed in any field of any receipt names that receipt", () =>
  fc.assert(
    fc.asyncProperty(chains, fc.nat(), fc.nat(), async (entries, place, at) => {
      const file = await signed(entries);
      const index = place % file.items.length;
      for (const leaf of leavesOf(file.items[index], () => undefined, "")) {
        leaf.set(altered(leaf.value, at));
        const fault = await faultOf(file);
        leaf.set(leaf.value);
        expect({ path: leaf.path, seq: fault?.seq }).toEqual({ path: leaf.path, seq: index + 1 });
      }
      expect(await faultOf(file)).toBeNull();
    }),
    runs,
  ));

it("T5: one character changed in any field of the head is a fault", () =>
  fc.assert(
    fc.asyncProperty(chains, fc.nat(), async (entries, at) => {
      const file = await signed(entries);
      for (const leaf of leavesOf(file.head, () => undefined, "")) {
        leaf.set(altered(leaf.value, at));
        expect({ path: leaf.path, kind: (await faultOf(file))?.kind }).toEqual({
          path: leaf.path,
          kind: "head",
        });
        leaf.set(leaf.value);
      }
    }),
    runs,
  ));

it("T5: a receipt that is removed, repeated or swapped with another is named", () =>
  fc.assert(
    fc.asyncProperty(chains, fc.nat(), fc.nat(), async (entries, a, b) => {
      const file = await signed(entries);
      const { length } = file.items;
      const one = a % length;
      const other = b % length;
      const removed = { ...file, items: file.items.toSpliced(one, 1) };
      expect((await faultOf(removed))?.seq).toBe(one + 1);
      const [item] = file.items.slice(one);
      if (item === undefined) return;
      const repeated = { ...file, items: file.items.toSpliced(one, 0, item) };
      await hasFault(one + 2, "sequence", repeated);
      if (one === other) return;
      const swapped = {
        ...file,
        items: file.items.with(one, file.items[other] ?? item).with(other, item),
      };
      expect(await faultOf(swapped)).toEqual({ seq: Math.min(one, other) + 1, kind: "sequence" });
    }),
    runs,
  ));

it("T5: a chain that is cut off, also at the end of a turn, ends before its head", () =>
  fc.assert(
    fc.asyncProperty(chains, fc.nat(), async (entries, a) => {
      const file = await signed(entries);
      const kept = a % file.items.length;
      const cut = { ...file, items: file.items.slice(0, kept) };
      await hasFault(kept + 1, "truncated", cut);
    }),
    runs,
  ));

it("T5: a receipt or head of another conversation does not fit, even by the same key", async () => {
  const turn = [question, answer, closing];
  const file = await signed(turn);
  const other = await signed(turn, otherSessionId);
  const foreign = other.items[1] ?? expect.fail("no answer");
  await hasFault(2, "session", { ...file, items: file.items.with(1, foreign) });
  const renamed = { ...foreign, session_id: sessionId };
  await hasFault(2, "signature", { ...file, items: file.items.with(1, renamed) });
  await hasFault(3, "head", { ...file, head: other.head });
  await hasFault(1, "session", { ...file, session_id: otherSessionId });
  // Another chain of the same conversation: signed, and not the one before it.
  const forked = await signed([ask("two"), answer, closing]);
  const own = forked.items[0] ?? expect.fail("no question");
  await hasFault(2, "previous", { ...file, items: file.items.with(0, own) });
  await hasFault(3, "head", { ...file, head: forked.head });
  const shorter = await signed(turn.slice(0, 1));
  await hasFault(3, "head", { ...file, head: shorter.head });
});

it("T5: a key that is swapped, unknown or named twice is a fault, whatever the file says", async () => {
  const turn = [question, closing];
  const impostor = await createTestReceiptKey("first");
  const forged = await signChain(sessionId, turn, impostor);
  expect((await verifyReceipts(forged)).fault).toBeNull();
  await hasFault(1, "signature", forged);
  const file = await signChain(sessionId, turn, first);
  await hasFault(1, "key", file, [second.key]);
  await hasFault(1, "key", file, [first.key, impostor.key]);
  expect((await verifyReceipts({ ...file, keys: [impostor.key] })).fault).toEqual({
    seq: 1,
    kind: "signature",
  });
});

it("T5: a signature or key in another spelling of base64url is a fault", async () => {
  const file = await signed([question]);
  // The last character has bits that decoding ignores.
  const respelled = (text: string) =>
    text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + 1);
  const item = file.items[0] ?? expect.fail("no receipt");
  const items = [{ ...item, signature: respelled(item.signature) }];
  await hasFault(1, "signature", { ...file, items });
  const head = { ...file.head, signature: respelled(file.head.signature) };
  await hasFault(1, "head", { ...file, head });
  const keys = [first, second].map(({ key }) => ({ ...key, x: respelled(key.x) }));
  await hasFault(1, "key", file, keys);
});

it("T5: receipts in an order that no turn has do not verify, though they are signed", async () => {
  await hasFault(1, "order", await signed([answer, closing]));
  await hasFault(3, "order", await signed([question, answer, answer]));
  await hasFault(3, "order", await signed([question, answer, question]));
  expect(await faultOf(await signed([question, answer]))).toBeNull();
});
