import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Malformed, verifyStatement as verifyIndependently } from "#docs/verify-statement.mjs";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { verifyFile } from "#functions/verify-completeness.ts";
import { hourMs } from "#kit/clock.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { createProver, leafHash, merkleRoot } from "#proto/completeness/merkle.ts";
import { formatCheckpoint, formatNoteKey, signNote } from "#proto/completeness/signed-note.ts";
import {
  type FileAccount,
  formatFileCertificate,
  formatFileEnd,
  formatFileLine,
  formatFileOnly,
  parseStatementFile,
  StatementFileMalformed,
} from "#proto/completeness/statement-file.ts";
import { accountsPayload } from "#proto/completeness/statement-line.ts";
import { createTestCa, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createStatedHost, type StatedHost } from "#tests/support/fleet/stated-host.ts";
import { exportStatement, type StatementOrder } from "./export-statement.ts";
import { createLogSigner, type LogSigner, writeStatement } from "./write-statement.ts";

const ten = Date.UTC(2026, 10, 25, 10);
const host = "https://fleet.example.test/dc-3/host-3";
const owner = "01920000-0000-7000-8000-00000000000a";

const test = await useTestCore({ now: ten + hourMs + 15 * 60_000 });
let stated: StatedHost & { close(): Promise<void> };
let keys: string;
/** A head that a witness kept after the first hour. */
let witness: string;
let files: Record<"all" | "own", string>;
let logSigner: LogSigner;

const exported = async (order: Partial<StatementOrder>) => {
  const parts: string[] = [];
  const given = {
    hour: new Date(ten + hourMs),
    withAccounts: true,
    onBlock: async () => undefined,
    ...order,
  };
  for await (const part of exportStatement({ db: test.db, codec: zstdCodec }, given))
    parts.push(part);
  return parts.join("");
};

beforeAll(async () => {
  const ca = await createTestCa();
  await test.seedFleet(6);
  stated = await createStatedHost(test, { host, ca });
  logSigner = await createLogSigner(
    "core.example/log",
    createNodeSigningKey((await createTestKey("ed25519")).pem),
  );
  keys = `${formatNoteKey(logSigner.key)}\n${ca.pem}`;
  const core = { ...test.core, logSigner };
  await writeStatement(core, owner);
  const first = await exported({ hour: new Date(ten) });
  witness = first.split("\n\n").slice(2).join("\n\n");
  await stated.store("one", "two");
  await stated.account(ten);
  await stated.store("three", "four");
  await stated.account(ten + hourMs, { toMs: ten + hourMs + 60_000 });
  await stated.account(ten + hourMs + 60_000, { toMs: ten + 2 * hourMs });
  await test.clock.advance(hourMs);
  await writeStatement(core, owner);
  files = { all: await exported({}), own: await exported({ host, since: 1 }) };
});
afterAll(() => stated.close());

type Verdict = "verifies" | "faults" | "malformed";

const verdictOf = async (verify: () => unknown) => {
  try {
    const { faults } = (await verify()) as { faults: unknown[] };
    return faults.length === 0 ? "verifies" : "faults";
  } catch (error) {
    if (error instanceof Malformed || error instanceof StatementFileMalformed) return "malformed";
    throw error;
  }
};

/** Judges a file by both programs. */
const judge = async (
  file: string,
  { kept = null, isUnbound = false }: { kept?: string | null; isUnbound?: boolean } = {},
) => [
  await verdictOf(async () => {
    const given = { file, keys, witness: kept, isHourUnbound: isUnbound, readBlock: undefined };
    return (await verifyFile(given)).result;
  }),
  await verdictOf(() =>
    verifyIndependently({ file, keys, isUnbound, ...(kept === null ? {} : { witness: kept }) }),
  ),
];

/** Each word in other spellings: of another value, of the same value, and of none. */
const wordMutations = (word: string) => {
  const flipped = (at: number) => {
    const other = word[at] === "A" ? "B" : "A";
    return `${word.slice(0, at)}${other}${word.slice(at + 1)}`;
  };
  return [
    flipped(0),
    flipped(word.length >> 1),
    flipped(word.length - 1),
    `0${word}`,
    `${word}0`,
    word.slice(0, -1),
    "-",
    "",
  ];
};

/** Mutations of a text by name: of its lines, and of their words if asked. */
function* mutationsOf(text: string, withWords: boolean): Generator<[name: string, text: string]> {
  const lines = text.split("\n");
  const joined = (at: number, removed: number, ...given: string[]) =>
    lines.toSpliced(at, removed, ...given).join("\n");
  for (const [at, line] of lines.entries()) {
    const kind = line.split(" ")[0] ?? "";
    yield [`removes ${kind}`, joined(at, 1)];
    yield [`doubles ${kind}`, joined(at, 1, line, line)];
    yield [
      `swaps ${kind} and ${(lines[at + 1] ?? "").split(" ")[0]}`,
      joined(at, 2, ...lines.slice(at, at + 2).toReversed()),
    ];
    yield [`ends ${kind} with a space`, joined(at, 1, `${line} `)];
    yield [`ends ${kind} with a carriage return`, joined(at, 1, `${line}\r`)];
    yield [`puts an item of a later version behind ${kind}`, joined(at, 1, line, "later 1")];
    yield [`cuts after ${kind}`, lines.slice(0, at).join("\n")];
    const words = withWords ? line.split(" ") : [];
    for (const [place, word] of words.entries())
      for (const changed of wordMutations(word))
        yield [
          `changes word ${place} of ${kind}`,
          joined(at, 1, words.with(place, changed).join(" ")),
        ];
  }
  yield ["begins with a byte order mark", `\ufeff${text}`];
  yield ["ends with another byte", `${text}x`];
  yield ["ends with another line feed", `${text}\n`];
}

it.each(["all", "own"] as const)(
  "L6: the corpus of changed files is judged alike by both verifiers, and nothing changed verifies (%s)",
  async (name) => {
    const file = files[name];
    const kept = name === "own" ? witness : null;
    expect(await judge(file, { kept })).toEqual(["verifies", "verifies"]);
    let judged = 0;
    const differing = new Set<string>();
    const accepted = new Set<string>();
    for (const [mutation, changed] of mutationsOf(file, name === "own")) {
      if (changed === file) continue;
      judged += 1;
      const [core, independent] = await judge(changed, { kept });
      if ((core === "verifies") !== (independent === "verifies"))
        differing.add(`${mutation}: ${core}, ${independent}`);
      if (core === "verifies") accepted.add(mutation);
    }
    console.info(`${judged} changes of a file of ${name === "all" ? "all hosts" : "one host"}`);
    expect([...differing]).toEqual([]);
    // A proof that is not needed may be missing, doubled or moved. No digest covers the unpacked size of a block.
    const harmless =
      /^doubles (certificate|consistency|—)|^removes (block|path)|^swaps (block|certificate|first|path) |^changes word 3 of block/;
    // That the file of one host shows of another that has no line there either is true.
    const accepts = [...accepted].filter(
      (mutation) => !harmless.test(mutation) && !mutation.endsWith("of only"),
    );
    expect(accepts).toEqual([]);
    expect(judged).toBeGreaterThan(150);
  },
);

describe("a core that has the key of its log", () => {
  const digest = zstdCodec.digest;
  const leafOf = (text: string) => leafHash(digest, new TextEncoder().encode(text));
  const hourOf = (at: string) => `2026-11-25T${at}Z`;
  const digestOf = (accounts: readonly FileAccount[]) => {
    if (accounts.length === 0) return "";
    const digests = accounts.map(({ body, rangeDigest }) => ({
      sha256: digest(accountPayload(body)),
      rangeDigest,
    }));
    return ` of=${digest(accountsPayload(digests)).toBase64()}`;
  };

  /** Signs a log of entries, and writes the file of one of them. Of a file with `only`, it has the lines of these places. */
  const forge = async (
    lines: readonly string[],
    {
      version = 2,
      hours = [hourOf("10:00:00")],
      isBound = true,
      only,
      places = [...lines.keys()],
      accounts = [],
    }: {
      version?: 1 | 2;
      hours?: readonly string[];
      isBound?: boolean;
      only?: string;
      places?: number[];
      accounts?: readonly (readonly FileAccount[])[];
    } = {},
  ) => {
    const texts = lines.map((line, at) => `${line}${digestOf(accounts[at] ?? [])}`);
    const hashes = texts.map(leafOf);
    const prover = createProver(digest, hashes);
    const root = merkleRoot(digest, hashes).toBase64();
    const log = hours.map((hour) => `svc-completeness-v${version} ${hour} ${lines.length} ${root}`);
    const index = hours.length - 1;
    const logProver = createProver(digest, log.map(leafOf));
    const head = formatCheckpoint({
      origin: "core.example/log",
      size: log.length,
      root: merkleRoot(digest, log.map(leafOf)),
    });
    const items = places.map((place) =>
      formatFileLine({
        index: place,
        text: texts[place] ?? "",
        proof: prover.inclusion(place),
        accounts: [...(accounts[place] ?? [])],
      }),
    );
    if (accounts.length > 0)
      items.push(...parseStatementFile(files.own).certificates.map(formatFileCertificate));
    const end = formatFileEnd({
      first: isBound ? { entry: log[0] ?? "", proof: logProver.inclusion(0) } : null,
      consistency: [],
      index,
      proof: logProver.inclusion(index),
      note: await signNote(head, logSigner.key, logSigner.sign),
    });
    return `${log[index]}\n${only === undefined ? "" : formatFileOnly(only)}${items.join("")}${end}`;
  };
  const both = (verdict: Verdict) => [verdict, verdict];
  const quiet = [
    "a late queues=any",
    "b silent queues=any",
    "b late hour=2026-11-25T08:00:00Z queues=any",
  ];

  it("L6: cannot have two entries of an hour in its log, one of a part of an hour, or one of an hour to come", async () => {
    const hours = [hourOf("10:00:00"), hourOf("11:00:00")];
    expect(await judge(await forge(quiet, { hours }))).toEqual(both("verifies"));
    for (const bad of [
      [...hours, hourOf("11:00:00")],
      [hourOf("10:00:00"), hourOf("10:00:00")],
      [hourOf("10:00:00"), "2099-01-01T00:00:00Z"],
      [hourOf("10:00:00"), hourOf("10:30:00")],
      [hourOf("10:30:00")],
    ])
      expect(await judge(await forge(quiet, { hours: bad })), bad.join()).toEqual(both("faults"));
    expect(await judge(await forge(quiet, { hours, isBound: false }), { isUnbound: true })).toEqual(
      both("faults"),
    );
  });

  it("L6: binds the hours of version 1 too, unless the one who asks goes without", async () => {
    const lines = ["a late", "b short accepted=2 missing=2 short=missing"];
    const given = { version: 1, hours: [hourOf("10:00:00"), hourOf("11:00:00")] } as const;
    expect(await judge(await forge(lines, given))).toEqual(both("verifies"));
    const old = await forge(lines, { ...given, isBound: false });
    expect(await judge(old)).toEqual(both("faults"));
    expect(await judge(old, { isUnbound: true })).toEqual(both("verifies"));
    expect(await judge(await forge(["a late queues=any"], given))).toEqual(both("faults"));
  });

  it("L6: cannot leave a line of a host out of its file", async () => {
    const only = "b";
    const lines = [
      ...quiet.slice(0, 2),
      "c late queues=any",
      ...quiet.slice(2),
      "c late hour=2026-11-25T08:00:00Z queues=any",
    ];
    expect(await judge(await forge(lines, { only }))).toEqual(both("verifies"));
    for (const places of [
      [0, 1, 2, 3],
      [0, 1, 2, 4],
      [0, 2, 3, 4],
      [1, 2, 3, 4],
      [0, 1, 3, 4],
    ])
      expect(await judge(await forge(lines, { only, places })), places.join()).toEqual(
        both("faults"),
      );
    const twice = ["a late queues=any", "b late queues=any", "b silent queues=any"];
    expect(await judge(await forge(twice, { only }))).toEqual(both("faults"));
    expect(await judge(await forge(lines, { places: [0, 1] }))).toEqual(both("faults"));
  });

  it("may say what only a later version knows: it is shown, and is not complete", async () => {
    const later = "a proven_elsewhere accepted=3 not_proven=2 object=s3://bucket/a queues=any";
    const file = await forge([later]);
    expect(await judge(file)).toEqual(both("verifies"));
    const { result } = await verifyFile({
      file,
      keys,
      witness: null,
      isHourUnbound: false,
      readBlock: undefined,
    });
    expect(result.notices.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      "state proven_elsewhere",
      "field not_proven",
      "field object",
    ]);
    expect(verifyIndependently({ file, keys }).notices).toHaveLength(3);
  });

  it("says complete of nothing that contradicts it", async () => {
    const of = `of=${new Uint8Array(32).toBase64()}`;
    const line = (rest: string) => `a complete accepted=3 stored=3${rest}`;
    expect(await judge(await forge([line(` queues=any ${of}`)]))).toEqual(both("verifies"));
    for (const rest of [
      ` ${of}`,
      " queues=any",
      ` missing=1 queues=any ${of}`,
      ` queue_full=1 queues=any ${of}`,
      ` file_gaps=1 queues=any ${of}`,
      ` short=unknown queues=any ${of}`,
    ])
      expect(await judge(await forge([line(rest)])), rest).toEqual(both("faults"));
  });

  it("is no proof where it leaves out an account or a signature, or names another hour's", async () => {
    const hours = [hourOf("10:00:00"), hourOf("11:00:00")];
    const own = parseStatementFile(files.own).lines.filter((line) => line.accounts.length > 0);
    const [accounts = [], earlier = []] = own.map((line) =>
      line.accounts.map((account) => ({ ...account, blocks: [] })),
    );
    const binding = /queues=\S+/.exec(own[0]?.text ?? "")?.[0];
    const says = (accepted: number) =>
      `${host} complete accepted=${accepted} stored=${accepted} ${binding}`;
    const evidence = accounts.map((account) => ({ ...account, refused: "malformed" }));
    const found = async (text: string, ...given: FileAccount[][]) => {
      const lines = given.map(() => text);
      const file = await forge(lines, { hours, accounts: given });
      const core = { file, keys, witness: null, isHourUnbound: false, readBlock: undefined };
      const { result } = await verifyFile(core);
      const { faults } = verifyIndependently({ file, keys });
      return [result.faults.map(({ kind }) => kind), faults.join()];
    };
    const saying = (text: string) => expect.stringContaining(`says complete, and ${text}`);
    expect(await found(says(2), accounts)).toEqual([[], ""]);
    expect(await found(says(2), accounts.slice(0, 1))).toEqual([
      ["state"],
      saying("its accounts lack a part of the hour"),
    ]);
    expect(await found(says(1), accounts)).toEqual([["counts"], saying("its accounts accepted 2")]);
    expect(await found(says(2), [])).toEqual([["state"], saying("of no account")]);
    expect(await found(says(2), evidence)).toEqual([
      expect.arrayContaining(["state"]),
      saying("core refused an account of it"),
    ]);
    expect(await found(says(2), [...accounts, ...earlier])).toEqual([
      expect.arrayContaining(["accounts"]),
      `account 1 of ${host} is of another hour`,
    ]);
    expect(await found(says(2), accounts, accounts)).toEqual([
      ["line"],
      `line 1 of ${host} is not in its place`,
    ]);
  });
});
