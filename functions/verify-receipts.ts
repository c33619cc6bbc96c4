import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import * as v from "valibot";
import { ReceiptFile, ReceiptKeys } from "#proto/chat/receipt.ts";
import { verifyReceipts } from "#proto/chat/verify-receipts.ts";
import {
  exitData,
  printResult,
  printUsage,
  readCommandLine,
  textOption,
} from "./node/command-line.ts";

const usage = `svc-server verify-receipts FILE|- [--keys FILE]

  Verifies the receipts of a conversation, offline. FILE is the response of GET /v1/chat/sessions/{id}/receipts.
  --keys FILE   the key set of GET /v1/chat/receipt-keys, from a source that you trust, never a file of receipts; without it, the
                keys in FILE are used, which proves only that one party signed all of it
  exit code     0: they verify; 1: they do not, and \`fault\` names the receipt; 2: usage; 65: not a file of receipts or keys
`;

/** Verifies a file of receipts and prints the result as one JSON object. Needs no environment. Returns the exit code. */
export const verifyReceiptsCommand = async (args: readonly string[]): Promise<number> => {
  const line = readCommandLine(args, { keys: textOption }, { takesArgument: true });
  if (line === null) return printUsage(usage, args.includes("--help"));
  const fail = (message: string) => {
    process.stderr.write(`${message}\n`);
    return exitData;
  };
  // As read, because the schema drops keys such as `__proto__`: data that nobody signed must not verify.
  const receipts = await readJson(line.argument);
  if (!v.is(ReceiptFile, receipts))
    return fail(
      "this is not a file of receipts (svc.chat-receipts.v1), or an object in it repeats a key",
    );
  const keysPath = line.values.keys;
  const keysFile = keysPath === undefined ? null : await readJson(keysPath);
  if (isOfReceipts(keysFile))
    return fail(
      "--keys: these are keys from the receipts, which proves nothing; ask core: GET /v1/chat/receipt-keys",
    );
  const keys = keysPath === undefined ? null : v.safeParse(ReceiptKeys, keysFile);
  if (keys?.success === false) return fail("--keys: this is not a set of receipt keys");
  const trusted = keys?.output.keys ?? receipts.keys;
  const { checked, turns, fault } = await verifyReceipts(receipts, trusted);
  const used = new Set([receipts.head.key_id, ...receipts.items.map(({ key_id }) => key_id)]);
  const result = {
    ok: fault === null,
    checked,
    turns,
    length: receipts.items.length,
    session_id: receipts.session_id,
    last_created_at: receipts.items.at(-1)?.created_at ?? null,
    keys: keys === null ? "from_file" : "given",
    ephemeral: trusted.some(({ kid, svc_ephemeral }) => svc_ephemeral === true && used.has(kid)),
    fault,
  };
  if (keys === null)
    process.stderr.write(
      "keys from the receipts themselves: this proves only that one party signed all of it\n",
    );
  printResult(result);
  return fault === null ? 0 : 1;
};

/** Reports whether a file of keys contains receipts: then their author could have added the keys. */
const isOfReceipts = (value: unknown) =>
  v.is(v.looseObject({}), value) &&
  ["format", "head", "items"].some((member) => Object.hasOwn(value, member));

/** Returns the JSON value of a file, or of stdin for `-`; undefined if it cannot be read, is not JSON, or repeats a key. */
const readJson = async (path: string): Promise<unknown> => {
  try {
    const json = path === "-" ? await text(process.stdin) : readFileSync(path, "utf8");
    const value: unknown = JSON.parse(json);
    return repeatsKey(json) ? undefined : value;
  } catch {
    return undefined;
  }
};

/**
 * Reports whether an object in valid JSON has a key twice. `JSON.parse` keeps the last, other readers the first: one file would have two meanings.
 */
const repeatsKey = (json: string) => {
  const open: Set<string>[] = [];
  for (const [token, string] of json.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(?:\s*:)?|[{}[\]]/g)) {
    if (token === "{" || token === "[") open.push(new Set());
    else if (token === "}" || token === "]") open.pop();
    else if (string !== undefined && string !== token) {
      const key: string = JSON.parse(string);
      if (open.at(-1)?.has(key)) return true;
      open.at(-1)?.add(key);
    }
  }
  return false;
};
