import { hash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { strictUtf8 } from "#kit/utf8.ts";
import { DerError, readCertificate } from "#proto/certificate-der.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { formatNoteKey, type NoteKey, parseNoteKey } from "#proto/completeness/signed-note.ts";
import {
  type FileBlock,
  parseStatementFile,
  type StatementFile,
  StatementFileMalformed,
} from "#proto/completeness/statement-file.ts";
import { hourText } from "#proto/completeness/statement-line.ts";
import { type StatementChecks, verifyStatement } from "#proto/completeness/verify-statement.ts";
import { identityOfExtensions } from "#proto/identity.ts";
import { blockFileName } from "./domain/completeness/block-file.ts";
import {
  exitData,
  printResult,
  printUsage,
  readCommandLine,
  switchOption,
  textOption,
} from "./node/command-line.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";
import { type Authority, readAuthorities } from "./signer/authority.ts";
import { createClientCertificateReader } from "./signer/certificate.ts";
import { proofAlgorithm, readPublicKey } from "./signer/cryptography.ts";

const usage = `svc-server verify-completeness FILE --keys FILE [--witness FILE] [--blocks DIR] [--unbound]

  Verifies the statement of an hour, offline. FILE is what svc-server export-completeness wrote (docs/completeness-proof.md).
  --keys FILE      from a source that you trust: the log's key as a line \`name+id+base64\`, and the certificates of the authority that issues
                   those of hosts, in PEM; without the latter the certificates in FILE are used, which core could have made
  --witness FILE   a signed head of the log that you kept: the log must continue it
  --blocks DIR     blocks of telemetry, which export-completeness --blocks wrote: they must be those that were stored
  --unbound        accept a statement of a core up to 0.3.0, whose file lacks the first entry of the log, which binds its hour
  exit code        0: it verifies; 1: it does not, and \`faults\` names what; 2: usage; 65: not a file of a statement, or of keys
`;

const options = {
  keys: textOption,
  witness: textOption,
  blocks: textOption,
  unbound: switchOption,
};

/** Verifies the file of a statement and prints the result as one JSON object. Needs no environment. Returns the exit code. */
export const verifyCompletenessCommand = async (args: readonly string[]): Promise<number> => {
  const line = readCommandLine(args, options, { takesArgument: true });
  if (line?.values.keys === undefined) return printUsage(usage, args.includes("--help"));
  const { keys, witness, blocks, unbound } = line.values;
  try {
    const verified = await verifyFile({
      file: readText(line.argument),
      keys: readText(keys),
      witness: witness === undefined ? null : readText(witness),
      isHourUnbound: unbound,
      readBlock: blocks === undefined ? undefined : blockReader(blocks),
    });
    const view = viewOf(verified);
    printResult(view);
    return view.ok ? 0 : 1;
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
    return exitData;
  }
};

const viewOf = ({ file, authorities, result }: Awaited<ReturnType<typeof verifyFile>>) => {
  const { entry, head, lines, accounts, faults } = result;
  return {
    ok: faults.length === 0,
    version: entry?.version ?? null,
    hour: entry && hourText(entry.hourStartMs),
    log: head && {
      origin: head.origin,
      size: head.size,
      root: head.root.toBase64(),
      signed_by: result.signedBy,
    },
    continues_witness: result.continuesWitness,
    lines: {
      checked: lines.checked,
      whole: lines.isWhole,
      of: entry?.lines ?? null,
      only: file.only,
    },
    accounts: {
      checked: accounts.checked,
      signed: accounts.signed,
      unknown_key: accounts.unknownKey,
      refused: accounts.refused,
    },
    host_keys: authorities === null ? "from_file" : "given",
    blocks: result.blocks,
    rules: result.rules,
    faults,
    notices: result.notices,
  };
};

/** Returns what is wrong with the files; throws an error that has another cause. */
const messageOf = (error: unknown) => {
  if (error instanceof StatementFileMalformed || error instanceof KeysMalformed)
    return error.message;
  if (error instanceof Error && "code" in error) return `cannot read a file: ${error.message}`;
  throw error;
};

/** The texts to verify, and the function that reads their blocks. */
interface VerifiedFile {
  file: string;
  keys: string;
  witness: string | null;
  isHourUnbound: boolean;
  readBlock: StatementChecks["readBlock"] | undefined;
}

/** Verifies the text of a file. Throws `StatementFileMalformed` and `KeysMalformed`. */
export const verifyFile = async ({ file: text, keys, readBlock, ...checks }: VerifiedFile) => {
  const file = parseStatementFile(text);
  const { logKeys, authorities } = await readKeys(keys);
  const verifyAccount = createAccountVerifier(file, authorities);
  const result = await verifyStatement(file, {
    ...checks,
    sha256,
    logKeys,
    verifyAccount,
    ...(readBlock ? { readBlock } : {}),
  });
  return { file, authorities, result };
};

/** V8's longest string has 512 MiB. */
const textBytesMax = 512 * 1024 * 1024 - 32;

/** Reads a file as UTF-8; reports an unreadable one, or one that is too large, by its name. */
const readText = (path: string) => {
  const { size } = statSync(path);
  if (size > textBytesMax)
    throw new StatementFileMalformed(
      `${path} has ${size} bytes, and at most ${textBytesMax} are read: export one host's lines`,
    );
  try {
    return strictUtf8.decode(readFileSync(path));
  } catch (error) {
    if (error instanceof TypeError) throw new StatementFileMalformed(`${path} is not UTF-8`);
    throw error;
  }
};

const sha256 = (bytes: Uint8Array) => hash("sha256", bytes, "buffer");

/** The file of keys has no key, or other content. */
class KeysMalformed extends Error {
  override readonly name = "KeysMalformed";
}

const pemPattern = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

const readKeys = async (
  text: string,
): Promise<{ logKeys: NoteKey[]; authorities: readonly Authority[] | null }> => {
  const logKeys: NoteKey[] = [];
  for (const line of text
    .replaceAll(pemPattern, "")
    .split("\n")
    .map((each) => each.trim())) {
    if (line === "" || line.startsWith("#")) continue;
    const key = await parseNoteKey(line);
    if (key === undefined)
      throw new KeysMalformed("--keys: a line is no key of a log and no certificate");
    logKeys.push(key);
  }
  if (logKeys.length === 0)
    throw new KeysMalformed(`--keys: there is no key of a log, such as ${exampleKey}`);
  const pem = text.match(pemPattern) ?? [];
  return { logKeys, authorities: pem.length === 0 ? null : readBundle(pem.join("\n")) };
};

const exampleKey = formatNoteKey({
  name: "core.example/completeness",
  id: new Uint8Array(4),
  publicKey: new Uint8Array(32),
});

const readBundle = (pem: string): readonly Authority[] => {
  try {
    return readAuthorities(pem);
  } catch {
    throw new KeysMalformed("--keys: a certificate is not one of an authority");
  }
};

/** Creates the function that checks hosts' signatures with the certificates of the file, which one of the authorities must have issued. */
const createAccountVerifier = (
  { certificates }: StatementFile,
  authorities: readonly Authority[] | null,
): StatementChecks["verifyAccount"] => {
  const cryptography = createNodeCryptography();
  const byFingerprint = new Map(certificates.map((der) => [sha256(der).toHex(), der]));
  const reader = authorities && createClientCertificateReader({ authorities, cryptography });
  const keyOf = async (der: Uint8Array) => {
    if (reader === null) return readUnprovenKey(der);
    const read = await reader.read(der);
    return read.ok ? read.certificate : undefined;
  };
  return async (host, { body, signature }, { certificateSha256 }) => {
    const der = byFingerprint.get(certificateSha256.toHex());
    if (der === undefined) return "unknown";
    const key = await keyOf(der);
    if (key?.identity !== host) return "bad";
    const { spki, proofAlgorithm: algorithm } = key;
    return (await cryptography.verify({ spki, algorithm, data: accountPayload(body), signature }))
      ? "good"
      : "bad";
  };
};

/** Reads the key of a certificate of any issuer. */
const readUnprovenKey = (der: Uint8Array) => {
  try {
    const { spki, extensions } = readCertificate(der);
    const name = identityOfExtensions(extensions);
    const key = readPublicKey(spki);
    const algorithm = key && proofAlgorithm(key.algorithm);
    return name.ok && algorithm
      ? { identity: name.identity, spki, proofAlgorithm: algorithm }
      : undefined;
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
};

/** Creates the function that reads the blocks of a directory. */
const blockReader = (directory: string) => (queueId: Uint8Array, block: FileBlock) => {
  for (const isCompressed of [true, false]) {
    const data = readIfThere(join(directory, blockFileName(queueId, block, isCompressed)));
    if (data === null) continue;
    return isCompressed && !block.isStored
      ? (zstdCodec.decompress(data, block.rawBytes) ?? undefined)
      : data;
  }
  return null;
};

const readIfThere = (path: string) => {
  try {
    return readFileSync(path);
  } catch {
    return null;
  }
};
