import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { equalBytes } from "#kit/bytes.ts";
import {
  createProver,
  createTree,
  isConsistent,
  leafHash,
  merkleRoot,
  rootOfInclusion,
} from "./merkle.ts";

const sha256 = (bytes: Uint8Array) => hash("sha256", bytes, "buffer");
const hex = (text: string) => Uint8Array.fromHex(text);
const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

// The vectors of the Certificate Transparency project, which transparency-dev/merkle and Go's tlog use too.
const leaves = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
];
const hashes = leaves.map((leaf) => leafHash(sha256, hex(leaf)));
const roots = [
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];
const inclusions = [
  { index: 0, size: 1, proof: [] },
  {
    index: 0,
    size: 8,
    proof: [
      "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
  },
  {
    index: 5,
    size: 8,
    proof: [
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
  },
  {
    index: 2,
    size: 3,
    proof: ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
  },
  {
    index: 1,
    size: 5,
    proof: [
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
  },
];
const consistencies = [
  { from: 1, to: 1, proof: [] },
  {
    from: 1,
    to: 8,
    proof: [
      "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
  },
  {
    from: 6,
    to: 8,
    proof: [
      "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
  },
  {
    from: 2,
    to: 5,
    proof: [
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
  },
  {
    from: 6,
    to: 7,
    proof: [
      "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
      "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
  },
];
const rootAt = (size: number) => hex(roots[size - 1] ?? "");

it("have the published roots at every size", () => {
  expect(merkleRoot(sha256, []).toHex()).toBe(
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  );
  for (const [at, root] of roots.entries())
    expect(hexOf(merkleRoot(sha256, hashes.slice(0, at + 1)))).toBe(root);
});

it.each(inclusions)(
  "have the published inclusion proof of leaf $index in a tree of $size",
  (vector) => {
    const { index, size } = vector;
    const leaf = hashes[index] ?? new Uint8Array();
    const proof = vector.proof.map(hex);
    const made = createProver(sha256, hashes.slice(0, size)).inclusion(index);
    expect(made.map(hexOf)).toEqual(vector.proof);
    const root = rootOfInclusion(sha256, { index, size }, { leaf, proof });
    expect(hexOf(root ?? new Uint8Array())).toBe(roots[size - 1]);
  },
);

it.each(consistencies)(
  "have the published consistency proof from $from to $to",
  ({ from, to, ...vector }) => {
    const made = createProver(sha256, hashes.slice(0, to)).consistency(from);
    expect(made.map(hexOf)).toEqual(vector.proof);
    const heads = {
      before: { size: from, root: rootAt(from) },
      after: { size: to, root: rootAt(to) },
    };
    expect(isConsistent(sha256, heads, vector.proof.map(hex))).toBe(true);
  },
);

const arbitraryTree = fc.integer({ min: 1, max: 70 }).chain((size) =>
  fc.record({
    hashes: fc.constant(
      Array.from({ length: size }, (_, at) => leafHash(sha256, Uint8Array.of(at))),
    ),
    index: fc.nat({ max: size - 1 }),
    from: fc.nat({ max: size }),
    bit: fc.nat({ max: 255 }),
  }),
);
const flip = (bytes: Uint8Array, bit: number) =>
  bytes.map((byte, at) => (at === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte));

it("prove each leaf at its place and at no other one", () => {
  fc.assert(
    fc.property(arbitraryTree, ({ hashes: all, index, from: other, bit }) => {
      const size = all.length;
      const leaf = all[index] ?? new Uint8Array();
      const root = merkleRoot(sha256, all);
      const proof = createProver(sha256, all).inclusion(index);
      const proves = (
        place: { index: number; size: number },
        nodes: readonly Uint8Array[],
        hashed = leaf,
      ) => {
        const reached = rootOfInclusion(sha256, place, { leaf: hashed, proof: nodes });
        return equalBytes(reached ?? new Uint8Array(), root);
      };
      expect(proves({ index, size }, proof)).toBe(true);
      if (other !== index) expect(proves({ index: other, size }, proof)).toBe(false);
      expect(proves({ index, size: size * 2 }, proof)).toBe(false);
      expect(proves({ index, size }, [...proof, root])).toBe(false);
      expect(proves({ index, size }, proof, flip(leaf, bit))).toBe(false);
      for (const at of proof.keys()) {
        expect(proves({ index, size }, proof.toSpliced(at, 1))).toBe(false);
        expect(proves({ index, size }, proof.with(at, flip(proof[at] ?? root, bit)))).toBe(false);
      }
    }),
  );
});

it("prove that a tree continues its beginning and no other one", () => {
  fc.assert(
    fc.property(arbitraryTree, ({ hashes: all, index, from, bit }) => {
      const size = all.length;
      const before = { size: from, root: merkleRoot(sha256, all.slice(0, from)) };
      const after = { size, root: merkleRoot(sha256, all) };
      const proof = createProver(sha256, all).consistency(from);
      const proves = (nodes: readonly Uint8Array[], heads = {}) =>
        isConsistent(sha256, { before, after, ...heads }, nodes);
      expect(proves(proof)).toBe(true);
      expect(proves([...proof, after.root])).toBe(false);
      if (from === 0) return;
      const changed = all.with(index, flip(all[index] ?? after.root, bit));
      const rewritten = { size, root: merkleRoot(sha256, changed) };
      // A change behind the beginning is what a log may do; one in it is not, whichever proof comes with it.
      const proofOfChanged = createProver(sha256, changed).consistency(from);
      expect(proves(proofOfChanged, { after: rewritten })).toBe(index >= from);
      const other = { ...before, root: flip(before.root, bit) };
      expect(proves(proof, { before: other })).toBe(false);
      for (const at of proof.keys()) {
        expect(proves(proof.toSpliced(at, 1))).toBe(false);
        expect(proves(proof.with(at, flip(proof[at] ?? after.root, bit)))).toBe(false);
      }
    }),
  );
});

it("grow leaf by leaf to the root of all", () => {
  const tree = createTree(sha256);
  for (const [at, node] of hashes.entries()) {
    tree.append(node);
    expect(tree.size).toBe(at + 1);
    expect(hexOf(tree.root())).toBe(roots[at]);
  }
});
