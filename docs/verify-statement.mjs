// Verifies the file of a statement with nothing but Node 22.15 or later: node verify-statement.mjs FILE KEYS [BLOCKS]
// KEYS has the log's key (name+id+base64) and the certificates of the authority of hosts. docs/completeness-proof.md has the formats.
import { createHash, createPublicKey, verify, X509Certificate } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import zlib from "node:zlib";

if (zlib.zstdDecompressSync === undefined) {
  console.error(`verify-statement.mjs needs Node 22.15 or later (this is ${process.version})`);
  process.exit(1);
}
const [filePath, keysPath, blocksPath] = process.argv.slice(2);
if (keysPath === undefined) {
  console.error("usage: node verify-statement.mjs FILE KEYS [BLOCKS]");
  process.exit(2);
}
const faults = [];
const check = (ok, what) => ok || faults.push(what);
const sha = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const bytes = (text) => Buffer.from(text === "-" ? "" : text, "base64");
const leafOf = (data) => sha(Buffer.of(0), data);
const nodeOf = (left, right) => sha(Buffer.of(1), left, right);

// RFC 6962: the root of leaf hashes, and the root that follows from a leaf and its path (RFC 9162, 2.1.3.2).
const rootOf = (hashes) => {
  if (hashes.length < 2) return hashes[0] ?? sha("");
  const split = 2 ** Math.ceil(Math.log2(hashes.length) - 1);
  return nodeOf(rootOf(hashes.slice(0, split)), rootOf(hashes.slice(split)));
};
const climb = (leaf, index, size, path) => {
  let [at, last, root] = [index, size - 1, leaf];
  for (const hash of path) {
    if (last === 0) return Buffer.alloc(0);
    const isRight = at % 2 === 1 || at === last;
    root = isRight ? nodeOf(hash, root) : nodeOf(root, hash);
    if (isRight) while (at % 2 === 0 && at > 0) [at, last] = [at >> 1, last >> 1];
    [at, last] = [at >> 1, last >> 1];
  }
  return last === 0 ? root : Buffer.alloc(0);
};

// The fields of a protobuf message, by number.
const decode = (data) => {
  const fields = {};
  let at = 0;
  const varint = () => {
    let [value, shift] = [0n, 0n];
    for (;;) {
      const byte = data[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
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

const keys = readFileSync(keysPath, "utf8");
const authorities = (keys.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(
  (pem) => new X509Certificate(pem),
);
const [, keyName, keyId, keyBase64] = /^(\S+?)\+([0-9a-f]{8})\+(\S+)$/m.exec(keys);
const logKeyDer = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), bytes(keyBase64).subarray(1)]);
const logKey = createPublicKey({ key: logKeyDer, format: "der", type: "spki" });

// The file: entry and items, the proof of the entry, the note.
const [head, proof, ...rest] = readFileSync(filePath, "utf8").split("\n\n");
const [entry, ...items] = head.split("\n");
const note = rest.join("\n\n");
const [, hour, lineCount, statementRoot] = entry.split(" ");

// The note: text, an empty line, signatures. The first four bytes of each are the key's id.
const text = `${note.slice(0, note.lastIndexOf("\n\n"))}\n`;
const [origin, size, logRoot] = text.split("\n");
const signature = note.split("\n").find((line) => line.startsWith(`— ${keyName} `));
const signed = bytes(signature?.split(" ")[2] ?? "");
check(
  origin === keyName &&
    signed.subarray(0, 4).toString("hex") === keyId &&
    verify(null, Buffer.from(text), logKey, signed.subarray(4)),
  "the head of the log is not signed by the key",
);
const [, index, ...path] = proof.split("\n").map((line) => line.replace("index ", ""));
const entryRoot = climb(leafOf(entry), Number(index), Number(size), path.map(bytes));
check(entryRoot.equals(bytes(logRoot)), "the entry is not in the log");

// The lines, each with its accounts and their blocks.
const lines = [];
const certificates = new Map();
for (const item of items) {
  const [kind, ...fields] = item.split(" ");
  const line = lines.at(-1);
  if (kind === "line") lines.push({ at: Number(fields[0]), text: item.slice(6 + fields[0].length), accounts: [] });
  else if (kind === "path") line.path = fields.map(bytes);
  else if (kind === "account") line.accounts.push({ fields, blocks: [] });
  else if (kind === "block") line.accounts.at(-1).blocks.push(fields);
  else if (kind === "certificate")
    certificates.set(sha(bytes(fields[0])).toString("hex"), new X509Certificate(bytes(fields[0])));
}
const isWhole = lines.length === Number(lineCount) && lines.every(({ at }, place) => at === place);
const linesRoot = rootOf(lines.map((line) => leafOf(line.text)));
if (isWhole) check(linesRoot.equals(bytes(statementRoot)), "the lines are not those of the entry");
const fieldOf = (line, name) => line.text.split(` ${name}=`)[1]?.split(" ")[0];
const names = lines.map((line) => `${line.text.split(" ")[0]} ${fieldOf(line, "hour")}`);
check(new Set(names).size === names.length, "a host is in the file twice");
const hourMs = 3_600_000;
for (const line of lines) {
  const [hostText, state] = line.text.split(" ");
  const host = decodeURIComponent(hostText);
  const says = (ok, what) => check(ok, `the line of ${host} says ${state}, and ${what}`);
  const isDone = state === "complete" || state === "undelivered";
  const from = Date.parse(fieldOf(line, "hour") ?? hour);
  if (line.path || !isWhole) {
    const root = climb(leafOf(line.text), line.at, Number(lineCount), line.path ?? []);
    check(root.equals(bytes(statementRoot)), `line ${line.at} of ${host} is not in the statement`);
  }
  const of = fieldOf(line, "of") ?? "";
  if (isDone) says(of, "of no account");
  if (line.accounts.length === 0) continue;
  const made = line.accounts.map(({ fields: [body, , digest] }) =>
    Buffer.concat([sha("svc-account-v1\n", bytes(body)), digest === "-" ? Buffer.alloc(32) : bytes(digest)]),
  );
  check(sha(...made).equals(bytes(of)), `the line of ${host} was made of other accounts`);
  let accepted = 0n;
  const times = [];
  for (const { fields, blocks } of line.accounts) {
    const [body, signatureText, digest, refused] = fields;
    if (refused) {
      if (isDone) says(false, "core refused an account of it");
      continue;
    }
    const account = decode(bytes(body));
    const name = `account ${account[3]} of ${host}`;
    const [fromMs, toMs] = [6, 7].map((field) => Number(account[field]?.[0] ?? 0n));
    if (account[10]?.[0] !== 1n) {
      check(fromMs - (fromMs % hourMs) === from, `${name} is of another hour`);
      for (const count of account[12] ?? []) accepted += decode(count)[3]?.[0] ?? 0n;
    }
    times.push([Math.max(fromMs, from), Math.min(toMs, from + hourMs)]);
    const certificate = certificates.get(account[19][0].toString("hex"));
    const isIssued = authorities.some(
      (authority) => certificate?.checkIssued(authority) && certificate.verify(authority.publicKey),
    );
    check(isIssued && certificate.subjectAltName.replace(/^\w+:/, "") === host, `${name}: its key is not this host's`);
    const algorithm =
      { prime256v1: "sha256", secp384r1: "sha384" }[certificate?.publicKey.asymmetricKeyDetails?.namedCurve] ?? null;
    const data = Buffer.concat([Buffer.from("svc-account-v1\n"), bytes(body)]);
    check(
      certificate && verify(algorithm, data, certificate.publicKey, bytes(signatureText)),
      `${name} is not signed by its host`,
    );
    const range = blocks.reduce((before, block) => sha(before, bytes(block[3])), Buffer.alloc(0));
    if (blocks.length > 0) check(range.equals(bytes(digest)), `${name} states other blocks`);
    for (const [first, last, rawBytes, blockDigest] of blocksPath ? blocks : []) {
      const stem = `${blocksPath}/${account[2][0].toString("hex")}-${first}-${last}`;
      const isPacked = existsSync(`${stem}.zst`);
      let stored = readFileSync(isPacked ? `${stem}.zst` : `${stem}.raw`);
      try {
        if (isPacked) stored = zlib.zstdDecompressSync(stored, { maxOutputLength: Number(rawBytes) });
      } catch {
        stored = Buffer.alloc(0);
      }
      check(sha(stored).equals(bytes(blockDigest)), `block ${first}-${last} of ${host} is not the one that was stored`);
    }
  }
  says(String(accepted) === (fieldOf(line, "accepted") ?? "0"), `its accounts accepted ${accepted}`);
  let through = times.reduce((first, [start]) => Math.min(first, start), from + hourMs);
  for (const [start, end] of times.sort(([one], [other]) => one - other))
    if (start <= through + 1000) through = Math.max(through, end);
  if (isDone) says(through >= from + hourMs - 1000, "its accounts lack a part of the hour");
}
console.log(faults.length === 0 ? `${hour}: ${lines.length} of ${lineCount} lines verify` : faults.join("\n"));
process.exitCode = faults.length === 0 ? 0 : 1;
