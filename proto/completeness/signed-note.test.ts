import { generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  formatCheckpoint,
  formatNoteKey,
  noteKeyOf,
  openNote,
  parseCheckpoint,
  parseNoteKey,
  signNote,
} from "./signed-note.ts";

// The example of golang.org/x/mod/sumdb/note, which implementations of the specification test against.
const published = {
  key: "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
  seed: "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz",
  text: "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
  signature:
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n",
};
const publishedNote = `${published.text}\n${published.signature}`;
const keyOf = async (text: string) => {
  const key = await parseNoteKey(text);
  if (key === undefined) throw new Error("no key");
  return key;
};
const newKey = async (name: string) => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const { x = "" } = publicKey.export({ format: "jwk" });
  const key = await noteKeyOf(name, Buffer.from(x, "base64url"));
  return { key, sign: async (bytes: Uint8Array) => sign(null, bytes, privateKey) };
};

describe("signed notes", () => {
  it("open with the published key", async () => {
    const key = await keyOf(published.key);
    expect(formatNoteKey(key)).toBe(published.key);
    expect(await openNote(publishedNote, [key])).toEqual({ text: published.text, keys: [key] });
  });

  it("are signed to the published bytes", async () => {
    const key = await keyOf(published.key);
    const seed = Buffer.from(published.seed, "base64").subarray(1);
    const pkcs8 = Uint8Array.from([
      ...Buffer.from("302e020100300506032b657004220420", "hex"),
      ...seed,
    ]);
    const secret = await crypto.subtle.importKey("pkcs8", pkcs8, "Ed25519", false, ["sign"]);
    const note = await signNote(
      published.text,
      key,
      async (bytes) => new Uint8Array(await crypto.subtle.sign("Ed25519", secret, bytes)),
    );
    expect(note).toBe(publishedNote);
  });

  it("do not open after a change of text, name or signature", async () => {
    const key = await keyOf(published.key);
    for (const changed of [
      publishedNote.replace("cryptography", "Cryptography"),
      publishedNote.replace("x08go/ZJ", "x08go/ZK"),
      publishedNote.replace("— PeterNeumann ", "— PeterNewman "),
      publishedNote.replace("— ", "- "),
      publishedNote.slice(0, -1),
      publishedNote.replace("answer", "ans\twer"),
      published.text,
      "",
    ])
      expect(await openNote(changed, [key]), changed).toBeUndefined();
  });

  it("open with the signatures of unknown witnesses beside the known one, and reject a wrong one of a known key", async () => {
    const known = await newKey("example.com/log");
    const witness = await newKey("witness.example/w");
    const note = await signNote("text\n", known.key, known.sign);
    const cosigned =
      note + (await signNote("text\n", witness.key, witness.sign)).slice("text\n\n".length);
    expect((await openNote(cosigned, [known.key]))?.keys).toEqual([known.key]);
    expect((await openNote(cosigned, [known.key, witness.key]))?.keys).toEqual([
      known.key,
      witness.key,
    ]);
    expect(await openNote(cosigned, [(await newKey("example.com/log")).key])).toBeUndefined();
    const forged =
      note + (await signNote("other\n", witness.key, witness.sign)).slice("other\n\n".length);
    expect((await openNote(forged, [known.key]))?.keys).toEqual([known.key]);
    expect(await openNote(forged, [known.key, witness.key])).toBeUndefined();
  });

  it("reject keys whose id is another's, or whose name has a space or a plus", async () => {
    expect(await parseNoteKey(published.key.replace("c74f20a3", "c74f20a4"))).toBeUndefined();
    expect(
      await parseNoteKey(published.key.replace("PeterNeumann", "Peter Neumann")),
    ).toBeUndefined();
    expect(await parseNoteKey(published.key.replace("ARpc", "Ahpc"))).toBeUndefined();
    expect(await parseNoteKey("")).toBeUndefined();
    for (const name of ["a b", "a+b", "a\u00a0b", ""]) {
      const { key } = await newKey(name);
      expect(await parseNoteKey(formatNoteKey(key)), name).toBeUndefined();
    }
  });
});

describe("checkpoints", () => {
  // The example of c2sp.org/tlog-checkpoint.
  const text =
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";

  it("are read and written", () => {
    const checkpoint = parseCheckpoint(text);
    expect(checkpoint).toMatchObject({ origin: "example.com/behind-the-sofa", size: 20852163 });
    expect(checkpoint && formatCheckpoint(checkpoint)).toBe(text);
    expect(parseCheckpoint(`${text}extension\n`)).toEqual(checkpoint);
  });

  it.each([
    ["a size with leading zeroes", text.replace("20852163", "020852163")],
    ["a size beyond exact numbers", text.replace("20852163", "9007199254740993")],
    ["a root of another length", text.replace("CsUYapGGPo4dkMgIAUqom/", "")],
    ["no origin", text.replace("example.com/behind-the-sofa", "")],
    ["an empty extension line", `${text}\nextension\n`],
    ["no end", text.slice(0, -1)],
  ])("are rejected with %s", (_, changed) => {
    expect(parseCheckpoint(changed)).toBeUndefined();
  });
});
