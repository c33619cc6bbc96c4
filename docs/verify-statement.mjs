// Verifies the file of a statement with nothing but Node 22.15 or later:
//   node verify-statement.mjs FILE KEYS [BLOCKS] [--witness FILE] [--unbound]
// KEYS has the log's key (name+id+base64) and the certificates of the authority of hosts. docs/completeness-proof.md has the formats.
import { createHash, createPublicKey, verify, X509Certificate } from "node:crypto";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import zlib from "node:zlib";

const hourMs = 3_600_000;
const sha = (...parts) =>
  parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const leafOf = (data) => sha(Buffer.of(0), data);
const nodeOf = (left, right) => sha(Buffer.of(1), left, right);
const isCount = (text) => /^(0|[1-9]\d{0,15})$/.test(text) && Number.isSafeInteger(Number(text));

/** The file is none of a statement. */
export class Malformed extends Error {}
const need = (ok, what) => {
  if (!ok) throw new Malformed(what);
};

// Base64 has one spelling here: with padding, and without other characters.
const none = Buffer.alloc(0);
const base64 = (text) => {
  const data = Buffer.from(text, "base64");
  return data.toString("base64") === text ? data : undefined;
};
const hashOf = (text) => {
  const data = base64(text);
  return data?.length === 32 ? data : undefined;
};
const bytes = (text) => {
  const data = base64(text);
  need(data, "something is not base64");
  return data;
};
const bytesOrNone = (text) => bytes(text === "-" ? "" : text);
const hashes = (texts) => {
  const all = texts.map(bytes);
  need(
    all.every(({ length }) => length === 32),
    "a hash does not have 32 bytes",
  );
  return all;
};

// RFC 6962, 2.1: the largest power of two below `size`; the root of leaf hashes.
const splitOf = (size) => {
  let split = 1;
  while (2 * split < size) split *= 2;
  return split;
};
const rootOf = (leaves) => {
  if (leaves.length < 2) return leaves[0] ?? sha("");
  const split = splitOf(leaves.length);
  return nodeOf(rootOf(leaves.slice(0, split)), rootOf(leaves.slice(split)));
};
// The root that follows from a leaf and its path, whose last hash is the highest; `none` for a path of another length.
const climb = (leaf, index, size, path) => {
  if (index >= size || (path.length === 0) !== (size === 1)) return none;
  if (size === 1) return leaf;
  const [split, below, sibling] = [splitOf(size), path.slice(0, -1), path.at(-1)];
  return index < split
    ? nodeOf(climb(leaf, index, split, below), sibling)
    : nodeOf(sibling, climb(leaf, index - split, size - split, below));
};
// The roots of the first `size` and of all `of` leaves that follow from a proof of consistency, which leaves a `known` one out.
const rootsOf = (size, of, path, known) => {
  if (size === of) {
    const rest = known === undefined ? path : [known, ...path];
    return rest.length === 1 ? [rest[0], rest[0]] : [none, none];
  }
  if (path.length === 0) return [none, none];
  const [split, below, sibling] = [splitOf(of), path.slice(0, -1), path.at(-1)];
  if (size > split)
    return rootsOf(size - split, of - split, below).map((root) => nodeOf(sibling, root));
  const [old, now] = rootsOf(size, split, below, known);
  return [old, nodeOf(now, sibling)];
};
const isContinued = (before, after, path) => {
  if (before.size > after.size || before.size === 0) return before.size === 0 && path.length === 0;
  const [old, now] = rootsOf(before.size, after.size, path, before.root);
  return old.equals(before.root) && now.equals(after.root);
};

// The fields of a protobuf message, by number.
const decode = (data) => {
  const fields = {};
  let at = 0;
  const varint = () => {
    let [value, shift] = [0n, 0n];
    for (; at < data.length; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return value;
  };
  while (at < data.length) {
    const tag = Number(varint());
    let value = varint();
    if (tag % 8 === 2) {
      const end = at + Number(value);
      value = data.subarray(at, end);
      at = end;
    }
    fields[tag >> 3] = [...(fields[tag >> 3] ?? []), value];
  }
  return fields;
};

// Keys: of logs, with the id that their name and bytes give, and of the authorities of hosts.
const pemPattern = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
const readKeys = (text) => {
  const authorities = (text.match(pemPattern) ?? []).map((pem) => new X509Certificate(pem));
  const named = text.replaceAll(pemPattern, "").split("\n");
  const logKeys = named
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name, id, encoded = ""] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(line) ?? [];
      const key = bytes(encoded);
      const isKey =
        key.length === 33 && key[0] === 1 && sha(`${name}\n`, key).toString("hex", 0, 4) === id;
      need(isKey, "KEYS: a line is no key of a log and no certificate");
      const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key.subarray(1)]);
      return { name, id, key: createPublicKey({ key: der, format: "der", type: "spki" }) };
    });
  need(logKeys.length > 0, "KEYS: there is no key of a log");
  return { authorities, logKeys };
};

// A head of a log as a signed note (c2sp.org/tlog-checkpoint): origin, size and root, an empty line, signatures.
const openHead = (note, logKeys) => {
  const end = note.lastIndexOf("\n\n");
  const text = note.slice(0, end + 1);
  const [origin, size = "", root = "", ...rest] = text.split("\n");
  const isHead = isCount(size) && hashOf(root) && rest.pop() === "";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: notes have none
  const hasControl = /[\u0000-\u0009\u000b-\u001f]/.test(note);
  const isText = note.length <= 1_000_000 && !hasControl && note.endsWith("\n");
  if (!isHead || !isText || end < 0 || origin === "" || rest.includes("")) return undefined;
  const signatures = note.slice(end + 2, -1).split("\n");
  const isGood = signatures.map((line) => {
    const [, name, encoded = ""] = /^— ([^\s\u0085+]+) (\S+)$/u.exec(line) ?? [];
    const data = base64(encoded) ?? none;
    if (data.length <= 4) return false;
    const known = logKeys.find((key) => key.name === name && data.toString("hex", 0, 4) === key.id);
    if (known === undefined) return null;
    return verify(null, Buffer.from(text), known.key, data.subarray(4)) && name;
  });
  const isSigned = signatures.length <= 100 && !isGood.includes(false) && isGood.includes(origin);
  return { origin, size: Number(size), root: hashOf(root), isSigned };
};

// A name has one spelling, with `:`, `/` and `@` as they are.
const decodeName = (text) => {
  try {
    const name = decodeURIComponent(text);
    const again = encodeURIComponent(name)
      .replaceAll("%3A", ":")
      .replaceAll("%2F", "/")
      .replaceAll("%40", "@");
    return again === text ? name : undefined;
  } catch {
    return undefined;
  }
};
const timeOf = (text) => {
  const ms = Date.parse(text);
  const isHour = ms % hourMs === 0 && new Date(ms).toISOString().replace(".000Z", "Z") === text;
  return isHour ? ms : undefined;
};
const readEntry = (text) => {
  const [, version, hour, lines, encoded = ""] =
    /^svc-completeness-v([12]) (\S+) (\S+) (\S+)$/.exec(text) ?? [];
  const ms = timeOf(hour);
  const root = hashOf(encoded);
  if (ms === undefined || !isCount(lines) || !root) return undefined;
  return { version: Number(version), hour, ms, lines: Number(lines), root };
};

// The fields of a line, in their order: version 2 has more, and passes over those that it does not know.
const words = (text) => text.split(" ");
const refusals = words("queue_full too_large malformed retry");
const counts = [
  ...words("accepted stored rejected discarded lost missing expired damaged file_gap_bytes"),
  ...refusals,
  ...words("export_rejected export_rejected_items"),
];
const laterCounts = words("file_gaps filtered redacted");
const others = words("short clock sink delivered");
const namesOf = {
  1: ["hour", ...counts, ...others, "of"],
  2: ["hour", ...counts, ...laterCounts, ...others, "queues", "of"],
};
const states = words("complete undelivered short late silent not_running core_out not_accounted");
const lossCounts = [
  ...words("rejected lost missing file_gap_bytes file_gaps queue_full too_large"),
  ...words("export_rejected export_rejected_items"),
];
const isWords = (text) => text.split(",").every((word) => /^[a-z_]+(:[a-z_]+)?$/.test(word));
const readQueue = (text, ms) => {
  const [, id, from = "0", to = String(hourMs)] =
    /^(any|others|[0-9a-f]{32})(?::(0|[1-9]\d{0,6})-(0|[1-9]\d{0,6}))?$/.exec(text) ?? [];
  const isWritten = id !== undefined && text !== `${id}:0-${hourMs}`;
  return isWritten ? { id, from: ms + Number(from), to: ms + Number(to) } : undefined;
};
const readLine = (text, { version, ms }) => {
  const [name, state = "", ...rest] = text.split(" ");
  const pairs = rest.map((field) => /^([a-z_]+)=(.+)$/.exec(field)?.slice(1) ?? []);
  const fields = new Map(pairs);
  const known = [...fields.keys()].filter((field) => namesOf[version].includes(field));
  const unknown = [...fields.keys()].filter((field) => !namesOf[version].includes(field));
  const own = fields.has("hour") ? timeOf(fields.get("hour")) : ms;
  const queues =
    fields
      .get("queues")
      ?.split(",")
      .map((queue) => readQueue(queue, own)) ?? [];
  const isCounted = (field) =>
    !fields.has(field) || (isCount(fields.get(field)) && fields.get(field) !== "0");
  const of = fields.get("of");
  const isGood = [
    pairs.every(({ length }) => length === 2) && fields.size === rest.length,
    version === 1 ? states.includes(state) && unknown.length === 0 : /^[a-z_]+$/.test(state),
    known.join() === namesOf[version].filter((field) => fields.has(field)).join(),
    decodeName(name) !== undefined && own !== undefined && !queues.includes(undefined),
    [...counts, ...laterCounts].every(isCounted) &&
      ["ahead", undefined].includes(fields.get("clock")),
    isWords(fields.get("short") ?? "a") && isWords(fields.get("sink") ?? "a"),
    (fields.get("delivered") ?? "a").split(",").every((each) => decodeName(each) !== undefined),
    of === undefined || hashOf(of),
  ].every(Boolean);
  if (!isGood) return undefined;
  return {
    host: decodeName(name),
    state,
    fields,
    unknown,
    queues,
    own,
    isCorrection: fields.has("hour"),
    of,
  };
};
const orderOf = (a, b) =>
  Number(a.isCorrection) - Number(b.isCorrection) ||
  Buffer.compare(Buffer.from(a.host), Buffer.from(b.host)) ||
  a.own - b.own;

// The file: entry and items, the proof of the entry, the note.
const readFile = (text) => {
  const [head, proof, ...rest] = text.split("\n\n");
  const [entryText, ...items] = head.split("\n");
  need(proof !== undefined && rest.length > 0, "the file has no proof and no head of a log");
  const entry = readEntry(entryText);
  const file = { entryText, entry, lines: [], certificates: [], consistency: [] };
  for (const item of items) readItem(file, item);
  const [name, index = "", ...path] = proof.split("\n");
  const isProof =
    name === "c2sp.org/tlog-proof@v1" && index.startsWith("index ") && isCount(index.slice(6));
  need(isProof, "the file has no proof of its entry");
  return { ...file, index: Number(index.slice(6)), path: hashes(path), note: rest.join("\n\n") };
};
const readItem = (file, item) => {
  const [kind, ...fields] = item.split(" ");
  const line = file.lines.at(-1);
  const place = `"${item.slice(0, 40)}" is no part of a statement`;
  if (Object.hasOwn(itemReaders, kind)) return itemReaders[kind](file, fields, place, line);
  // Of a later version, below its line: the digest of the line covers it.
  need(line !== undefined && file.entry?.version !== 1 && /^[a-z][a-z_-]*$/.test(kind), place);
  line.items.push({ kind, text: item });
};
const itemReaders = {
  only: (file, fields, place) => {
    need(fields.length === 1 && file.only === undefined && file.lines.length === 0, place);
    file.only = decodeName(fields[0]);
    need(file.only !== undefined, place);
  },
  line: (file, fields, place) => {
    need(isCount(fields[0] ?? ""), place);
    file.lines.push({ at: Number(fields[0]), text: fields.slice(1).join(" "), items: [] });
  },
  path: (_file, fields, place, line) => {
    need(line !== undefined && line.path === undefined, place);
    line.path = hashes(fields);
  },
  account: (_file, fields, place, line) => {
    const [body, signature, digest, refused, ...more] = fields;
    need(line !== undefined && digest !== undefined && more.length === 0, place);
    const range = digest === "-" ? null : hashes([digest])[0];
    line.items.push({
      body: bytesOrNone(body),
      signature: bytesOrNone(signature),
      range,
      refused,
      blocks: [],
    });
  },
  block: (_file, fields, place, line) => {
    const [first, last, size, digest, kind, ...more] = fields;
    const blocks = line?.items.findLast(({ body }) => body)?.blocks;
    const isBlock =
      [first, last].every((sequence) => /^(0|[1-9]\d{0,18})$/.test(sequence ?? "")) &&
      isCount(size ?? "");
    const isKnown = [undefined, "stored"].includes(kind) && more.length === 0;
    need(blocks !== undefined && isBlock && digest !== undefined && isKnown, place);
    const isStored = kind === "stored";
    blocks.push({
      first: BigInt(first),
      last: BigInt(last),
      size: Number(size),
      digest: hashes([digest])[0],
      isStored,
    });
  },
  certificate: (file, fields) => file.certificates.push(bytes(fields.join(" "))),
  consistency: (file, fields, place) => {
    need(isCount(fields[0] ?? ""), place);
    file.consistency.push({ size: Number(fields[0]), path: hashes(fields.slice(1)) });
  },
  first: (file, fields, place) => {
    need(file.first === undefined, place);
    file.first = { text: fields.slice(0, 4).join(" "), path: hashes(fields.slice(4)) };
  },
};

/** Verifies the text of a file; `readBlock(name)` returns the bytes of a block's file, or undefined. Throws `Malformed`. */
export const verifyStatement = ({ file: text, keys, witness, isUnbound = false, readBlock }) => {
  const faults = [];
  const notices = [];
  const check = (ok, what) => ok || faults.push(what);
  const { authorities, logKeys } = readKeys(keys);
  const file = readFile(text);
  const { entry, first, only } = file;
  const head = openHead(file.note, logKeys);
  check(head?.isSigned, "the head of the log is not signed by the key");
  check(entry, "the entry is malformed");
  if (head === undefined || entry === undefined) return { faults, notices, summary: "" };
  const isInLog = (entryText, index, path) =>
    climb(leafOf(entryText), index, head.size, path).equals(head.root);
  check(isInLog(file.entryText, file.index, file.path), "the entry is not in the log");
  if (witness !== undefined)
    check(
      continues(openHead(witness, logKeys), head, file.consistency),
      "the log does not continue what the witness kept",
    );
  // Hours have no gap: the place of an entry is that of its hour.
  if (first === undefined && file.index > 0)
    check(
      entry.version === 1 && isUnbound,
      "the hour is not bound: the file lacks the first entry of the log",
    );
  else {
    const { text: firstText, path } = first ?? { text: file.entryText, path: file.path };
    const isFirst = isInLog(firstText, 0, path) && readEntry(firstText);
    check(
      isFirst && isFirst.ms + file.index * hourMs === entry.ms,
      "the entry is not at the place of its hour",
    );
  }
  const lines = file.lines.map((line) => ({ ...line, ...readLine(line.text, entry) }));
  checkLines(lines, { entry, only, check });
  for (const line of lines) noteUnknown(line, notices);
  const certificates = new Map(
    file.certificates.map((der) => [sha(der).toString("hex"), readCertificate(der)]),
  );
  const accounts = new Map();
  for (const line of lines)
    if (line.host !== undefined)
      checkLine(line, { entry, certificates, authorities, accounts, readBlock, check });
  return {
    faults,
    notices,
    summary: `${entry.hour}: ${lines.length} of ${entry.lines} lines verify`,
  };
};

const continues = (kept, head, consistency) => {
  if (!kept?.isSigned || kept.origin !== head.origin) return false;
  const path = consistency.find(({ size }) => size === kept.size)?.path;
  return (path !== undefined || kept.size === head.size) && isContinued(kept, head, path ?? []);
};

const noteUnknown = ({ host, state, unknown = [], items }, notices) => {
  if (state !== undefined && !states.includes(state)) notices.push(`state ${state} of ${host}`);
  for (const name of unknown) notices.push(`field ${name} of ${host}`);
  for (const { kind } of items) if (kind) notices.push(`item ${kind} of ${host}`);
};

const readCertificate = (der) => {
  try {
    return new X509Certificate(der);
  } catch {
    return undefined;
  }
};

const checkLines = (lines, { entry, only, check }) => {
  for (const { at, host, text } of lines)
    check(host !== undefined, `line ${at} is malformed: ${text.slice(0, 80)}`);
  const read = lines.filter(({ host }) => host !== undefined);
  const follows = (line, before) =>
    before === undefined || (orderOf(before, line) < 0 && before.at < line.at);
  for (const [place, line] of read.entries()) {
    const isEarlier = !line.isCorrection || line.own < entry.ms;
    check(
      isEarlier && follows(line, read[place - 1]),
      `line ${line.at} of ${line.host} is not in its place`,
    );
  }
  const isWhole = lines.length === entry.lines && lines.every(({ at }, place) => at === place);
  const isRoot = isWhole && rootOf(lines.map((line) => leafOf(line.text))).equals(entry.root);
  for (const { at, text, path } of lines) {
    const isProven =
      path === undefined ? isRoot : climb(leafOf(text), at, entry.lines, path).equals(entry.root);
    check(isProven, `line ${at} of ${decodeName(text.split(" ")[0])} is not in the statement`);
  }
  if (isWhole) return check(isRoot, "the lines are not those of the entry");
  if (only === undefined)
    return check(
      entry.version === 1 && lines.length > 0,
      "the file has neither all lines nor those of one host",
    );
  // Beside the lines of the host are those before and after it, without a gap: it has no others.
  for (const isCorrection of [false, true]) {
    const places = isCorrection ? [0, Number.POSITIVE_INFINITY] : [entry.ms, entry.ms];
    const [low, high] = places.map((own) => ({ host: only, isCorrection, own }));
    const from = read.findLast((line) => orderOf(line, low) < 0)?.at ?? -1;
    const to = read.find((line) => orderOf(line, high) > 0)?.at ?? entry.lines;
    const between = read.filter(({ at }) => at > from && at < to);
    check(between.length === to - from - 1, `the file lacks a line beside those of ${only}`);
  }
};

const checkLine = (line, context) => {
  const { host, state, fields, queues, items, own, of } = line;
  const { entry, accounts, check } = context;
  const says = (ok, what) => check(ok, `the line of ${host} says ${state}, and ${what}`);
  const isDone = state === "complete" || state === "undelivered";
  const count = (name) => Number(fields.get(name) ?? 0);
  if (isDone) {
    says(of !== undefined, "of no account");
    says(
      !fields.has("short") && lossCounts.every((name) => count(name) === 0),
      "its counts do not",
    );
    says(entry.version === 1 || queues.length > 0, "of no queue");
  }
  if (items.length === 0) return;
  const parts = items.map(({ body, range, text }) =>
    body ? Buffer.concat([sha("svc-account-v1\n", body), range ?? Buffer.alloc(32)]) : sha(text),
  );
  check(
    of !== undefined && sha(...parts).equals(bytes(of)),
    `the line of ${host} was made of other accounts`,
  );
  const stated = checkAccounts(line, says, { ...context, isDone });
  for (const { name, queue, number, previous } of stated) {
    const predecessor = accounts.get(`${host} ${queue}/${number - 1n}`);
    check(
      predecessor === undefined || predecessor.equals(previous),
      `${name} does not follow the one before`,
    );
  }
  const ofHour = stated.filter(
    ({ isStopped, from }) => !isStopped && from - (from % hourMs) === own,
  );
  for (const name of hostCounts[entry.version]) {
    const sum = ofHour.reduce((total, account) => total + account.counts[name], 0n);
    says(String(sum) === (fields.get(name) ?? "0"), `its accounts ${name} ${sum}`);
  }
  if (!isDone) return;
  const before = stated.reduce((sum, { ackedBefore }) => sum + ackedBefore, 0n);
  const isStored = count("stored") + count("discarded") + Number(before) === count("accepted");
  says(isStored, "its counts do not");
  checkBinding(line, stated, says, entry);
};

/** Checks the accounts of a line, and returns those that count. */
const checkAccounts = ({ host, items, own }, says, context) => {
  const { accounts, check, isDone } = context;
  const stated = [];
  for (const item of items.filter(({ body }) => body)) {
    const account = readAccount(item, host);
    const { queue, number, hash } = account;
    if (item.refused !== undefined) {
      says(!isDone, "core refused an account of it");
      if (account.host === host) accounts.set(`${host} ${queue}/${number}`, hash);
      continue;
    }
    if (account.host !== host) {
      check(false, `an account of ${host} is not its own`);
      continue;
    }
    accounts.set(`${host} ${queue}/${number}`, hash);
    checkSignature(account, item, context);
    checkBlocks(account, item, context);
    check(
      account.isStopped || account.from - (account.from % hourMs) === own,
      `${account.name} is of another hour`,
    );
    stated.push(account);
  }
  return stated;
};

/** Checks that the accounts cover what the line binds of its hour. */
const checkBinding = ({ queues, own }, stated, says, entry) => {
  const times = stated.map(({ queue, from, to }) => ({
    queue,
    from: Math.max(from, own),
    to: Math.min(to, own + hourMs),
  }));
  const firstFrom = Math.min(...stated.map(({ from }) => from));
  const binding =
    entry.version === 1
      ? [{ id: "any", from: Math.max(own, firstFrom), to: own + hourMs }]
      : queues;
  for (const { id, from, to } of binding) {
    let through = from;
    for (const time of times.toSorted((one, other) => one.from - other.from))
      if ((id === "any" || time.queue === id) && time.from <= through + 1000)
        through = Math.max(through, time.to);
    says(through >= to - 1000, "its accounts lack a part of the hour");
  }
  const isNamed = (queue) => binding.some(({ id }) => id === "any" || id === queue);
  says(
    stated.every(({ isStopped, queue }) => isStopped || isNamed(queue)),
    "it has accounts of a queue that it does not name",
  );
};

// The counts that are the host's own; the others are core's.
const firstHostCounts = [...words("accepted expired damaged file_gap_bytes"), ...refusals];
const hostCounts = { 1: firstHostCounts, 2: [...firstHostCounts, ...laterCounts] };
const numberIn = (fields, field) => fields[field]?.at(-1) ?? 0n;
const readAccount = ({ body }, ofHost) => {
  const fields = decode(body);
  const number = (field) => numberIn(fields, field);
  const data = (field) => fields[field]?.at(-1) ?? none;
  const inside = (field) => (fields[field] ?? []).map(decode);
  const records = (counted, field) =>
    counted.reduce((sum, each) => sum + numberIn(each, field), 0n);
  const refused = refusals.map((name, place) => {
    const reason = BigInt(place + 1);
    return [
      name,
      records(
        inside(13).filter((each) => numberIn(each, 1) === reason),
        3,
      ),
    ];
  });
  const [first, last, acked] = [8, 9, 18].map(number);
  let through = last;
  if (acked < last) through = acked;
  return {
    host: String(data(1)),
    queue: data(2).toString("hex"),
    number: number(3),
    name: `account ${number(3)} of ${ofHost}`,
    hash: sha("svc-account-v1\n", body),
    previous: data(4),
    from: Number(number(6)),
    to: Number(number(7)),
    first,
    last,
    isStopped: number(10) === 1n,
    ackedBefore: through < first ? 0n : through - first + 1n,
    certificate: data(19).toString("hex"),
    counts: {
      ...Object.fromEntries(refused),
      accepted: records(inside(12), 3),
      expired: number(14),
      damaged: number(15),
      file_gap_bytes: number(16),
      file_gaps: number(21),
      filtered: records(inside(23), 4),
      redacted: records(inside(24), 4),
    },
  };
};

const checkSignature = ({ name, host, certificate: fingerprint }, { body, signature }, context) => {
  const { entry, certificates, authorities, isDone, check } = context;
  if (!certificates.has(fingerprint))
    return check(entry.version === 1 || !isDone, `${name}: the file lacks its certificate`);
  const certificate = certificates.get(fingerprint);
  const isIssued =
    authorities.length === 0 ||
    authorities.some(
      (authority) => certificate?.checkIssued(authority) && certificate.verify(authority.publicKey),
    );
  const isIts = isIssued && certificate?.subjectAltName?.replace(/^\w+:/, "") === host;
  if (!isIts) return check(false, `${name}: its key is not this host's`);
  const { publicKey } = certificate;
  const algorithm =
    { prime256v1: "sha256", secp384r1: "sha384" }[publicKey.asymmetricKeyDetails?.namedCurve] ??
    null;
  const isKnown = algorithm !== null || publicKey.asymmetricKeyType === "ed25519";
  const data = Buffer.concat([Buffer.from("svc-account-v1\n"), body]);
  check(
    isKnown && verify(algorithm, data, publicKey, signature),
    `${name} is not signed by its host`,
  );
};

const checkBlocks = (
  { name, host, queue, first, last },
  { blocks, range },
  { readBlock, check },
) => {
  if (blocks.length === 0) return;
  let through = first - 1n;
  let digest = none;
  for (const block of blocks) {
    const isIn = block.first > through && block.last >= block.first && block.last <= last;
    check(isIn, `block ${block.first}-${block.last} of ${host} is not of its account's range`);
    through = block.last;
    digest = sha(digest, Buffer.from(block.isStored ? [1] : []), block.digest);
    const stored = readBlock?.(`${queue}-${block.first}-${block.last}`, block);
    const isSame = stored === undefined || sha(stored).equals(block.digest);
    check(isSame, `block ${block.first}-${block.last} of ${host} is not the one that was stored`);
  }
  check(range !== null && digest.equals(range), `${name} states other blocks`);
};

// The longest text of V8.
const textBytesMax = 512 * 1024 * 1024 - 32;
const readText = (path) => {
  need(
    statSync(path).size <= textBytesMax,
    `${path} has more than ${textBytesMax} bytes: export one host's lines`,
  );
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
  } catch (error) {
    if (error instanceof TypeError) throw new Malformed(`${path} is not UTF-8`);
    throw error;
  }
};

const readStored =
  (folder) =>
  (name, { size, isStored }) => {
    const stem = `${folder}/${name}`;
    if (!existsSync(`${stem}.zst`))
      return existsSync(`${stem}.raw`) ? readFileSync(`${stem}.raw`) : undefined;
    const data = readFileSync(`${stem}.zst`);
    try {
      return isStored ? data : zlib.zstdDecompressSync(data, { maxOutputLength: size });
    } catch {
      return none;
    }
  };

const main = () => {
  if (zlib.zstdDecompressSync === undefined) {
    console.error(`verify-statement.mjs needs Node 22.15 or later (this is ${process.version})`);
    return 1;
  }
  const options = { witness: { type: "string" }, unbound: { type: "boolean" } };
  let given;
  try {
    given = parseArgs({ options, allowPositionals: true });
  } catch {
    given = { positionals: [] };
  }
  const [path, keysPath, folder, ...more] = given.positionals;
  if (keysPath === undefined || more.length > 0) {
    console.error(
      "usage: node verify-statement.mjs FILE KEYS [BLOCKS] [--witness FILE] [--unbound]",
    );
    return 2;
  }
  const { witness, unbound } = given.values;
  try {
    const { faults, notices, summary } = verifyStatement({
      file: readText(path),
      keys: readText(keysPath),
      witness: witness === undefined ? undefined : readText(witness),
      isUnbound: unbound,
      readBlock: folder === undefined ? undefined : readStored(folder),
    });
    for (const notice of notices.slice(0, 100)) console.error(`of a later version: ${notice}`);
    console.log(faults.length === 0 ? summary : faults.slice(0, 100).join("\n"));
    return faults.length === 0 ? 0 : 1;
  } catch (error) {
    if (!(error instanceof Malformed) && error.code === undefined) throw error;
    console.error(error.message);
    return 65;
  }
};

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  process.exitCode = main();
