/** Merkle trees as RFC 6962 hashes them, and their proofs (section 2.1); proofs are verified as RFC 9162 describes it. */
import { concatBytes, equalBytes } from "#kit/bytes.ts";

/** A synchronous SHA-256: a promise for each of a tree's 100,000 nodes would cost more than the hash. */
export type Sha256 = (bytes: Uint8Array) => Uint8Array;

const leafPrefix = Uint8Array.of(0);
const nodePrefix = Uint8Array.of(1);

/** Returns the hash of a leaf. */
export const leafHash = (sha256: Sha256, leaf: Uint8Array): Uint8Array =>
  sha256(concatBytes([leafPrefix, leaf]));

const nodeHash = (sha256: Sha256, left: Uint8Array, right: Uint8Array): Uint8Array =>
  sha256(concatBytes([nodePrefix, left, right]));

/** Creates an empty tree that grows by leaves and keeps only the roots of its complete subtrees. */
export const createTree = (sha256: Sha256) => {
  const subtrees: { hash: Uint8Array; size: number }[] = [];
  let size = 0;
  return {
    get size() {
      return size;
    },
    append: (hash: Uint8Array) => {
      size += 1;
      let added = { hash, size: 1 };
      for (let left = subtrees.at(-1); left?.size === added.size; left = subtrees.at(-1)) {
        added = { hash: nodeHash(sha256, left.hash, added.hash), size: 2 * added.size };
        subtrees.pop();
      }
      subtrees.push(added);
    },
    root: () =>
      subtrees.length === 0
        ? sha256(new Uint8Array())
        : subtrees
            .map(({ hash }) => hash)
            .reduceRight((right, left) => nodeHash(sha256, left, right)),
  };
};

/** Returns the root of a tree of these leaf hashes. */
export const merkleRoot = (sha256: Sha256, hashes: readonly Uint8Array[]): Uint8Array => {
  const tree = createTree(sha256);
  for (const hash of hashes) tree.append(hash);
  return tree.root();
};

/** The largest power of two below `size`, which is at least 2. */
const splitOf = (size: number): number => {
  let split = 1;
  while (2 * split < size) split *= 2;
  return split;
};

/** Creates proofs of a tree. */
export type TreeProver = ReturnType<typeof createProver>;

/** Creates the prover of a tree of these leaf hashes. Caches computed nodes, so that further proofs are cheap. */
export const createProver = (sha256: Sha256, hashes: readonly Uint8Array[]) => {
  const known = new Map<number, Uint8Array>();
  const rootOf = (from: number, to: number): Uint8Array => {
    const leaf = hashes[from];
    if (to - from === 1 && leaf) return leaf;
    const key = from * (hashes.length + 1) + to;
    const middle = from + splitOf(to - from);
    const root = known.get(key) ?? nodeHash(sha256, rootOf(from, middle), rootOf(middle, to));
    known.set(key, root);
    return root;
  };
  const include = (index: number, from: number, to: number): Uint8Array[] => {
    if (to - from <= 1) return [];
    const middle = from + splitOf(to - from);
    return index < middle
      ? [...include(index, from, middle), rootOf(middle, to)]
      : [...include(index, middle, to), rootOf(from, middle)];
  };
  /** `isWhole`: the node is the root of the smaller tree, which is known. */
  const continues = (
    size: number,
    { from, to, isWhole }: { from: number; to: number; isWhole: boolean },
  ): Uint8Array[] => {
    if (size === to) return isWhole ? [] : [rootOf(from, to)];
    const middle = from + splitOf(to - from);
    return size <= middle
      ? [...continues(size, { from, to: middle, isWhole }), rootOf(middle, to)]
      : [...continues(size, { from: middle, to, isWhole: false }), rootOf(from, middle)];
  };
  return {
    /** Returns the proof that the leaf at `index` is in the tree: from its sibling up to the root's child. */
    inclusion: (index: number) => include(index, 0, hashes.length),
    /** Returns the proof that the tree continues the tree of its first `size` leaves. */
    consistency: (size: number) =>
      size === 0 || size >= hashes.length
        ? []
        : continues(size, { from: 0, to: hashes.length, isWhole: true }),
  };
};

const isOdd = (value: number): boolean => value % 2 === 1;
const half = (value: number): number => Math.floor(value / 2);

/** Follows a path from a node upwards. `at` is the node's index in its level, `last` the index of the level's last node. */
const climb = (
  path: readonly Uint8Array[],
  {
    at,
    last,
    join,
  }: { at: number; last: number; join(hash: Uint8Array, side: "left" | "right"): void },
): boolean => {
  let node = at;
  let end = last;
  for (const hash of path) {
    if (end === 0) return false;
    const isRight = isOdd(node) || node === end;
    join(hash, isRight ? "left" : "right");
    // The last node of a level may have no sibling there.
    if (isRight)
      while (!isOdd(node) && node !== 0) {
        node = half(node);
        end = half(end);
      }
    node = half(node);
    end = half(end);
  }
  return end === 0;
};

/** A place in a tree. */
interface LeafPlace {
  index: number;
  size: number;
}

/** Returns the root that follows from a leaf hash and its inclusion proof; undefined for a proof of another length. */
export const rootOfInclusion = (
  sha256: Sha256,
  { index, size }: LeafPlace,
  { leaf, proof }: { leaf: Uint8Array; proof: readonly Uint8Array[] },
): Uint8Array | undefined => {
  if (!(index >= 0 && index < size && size <= Number.MAX_SAFE_INTEGER)) return undefined;
  let root = leaf;
  const isWhole = climb(proof, {
    at: index,
    last: size - 1,
    join: (hash, side) => {
      root = side === "left" ? nodeHash(sha256, hash, root) : nodeHash(sha256, root, hash);
    },
  });
  return isWhole ? root : undefined;
};

/** A tree at a size. */
export interface TreeHead {
  size: number;
  root: Uint8Array;
}

/** Reports whether the proof shows that a text is the leaf at `index` of the tree. */
export const isIncluded = (
  sha256: Sha256,
  { size, root }: TreeHead,
  { index, text, proof }: { index: number; text: string; proof: readonly Uint8Array[] },
): boolean => {
  const leaf = leafHash(sha256, new TextEncoder().encode(text));
  const found = rootOfInclusion(sha256, { index, size }, { leaf, proof });
  return found !== undefined && equalBytes(found, root);
};

/** Reports whether the proof shows that the tree of `after` continues the one of `before`. Every tree continues the empty one. */
export const isConsistent = (
  sha256: Sha256,
  { before, after }: { before: TreeHead; after: TreeHead },
  proof: readonly Uint8Array[],
): boolean => {
  if (before.size > after.size || after.size > Number.MAX_SAFE_INTEGER) return false;
  if (before.size === after.size) return proof.length === 0 && equalBytes(before.root, after.root);
  if (before.size === 0) return proof.length === 0;
  let at = before.size - 1;
  let last = after.size - 1;
  while (isOdd(at)) {
    at = half(at);
    last = half(last);
  }
  // The smaller tree is one of the larger one's subtrees if its size is a power of two: then the proof leaves it out.
  const path = at === 0 ? [before.root, ...proof] : proof;
  const [seed, ...rest] = path;
  if (seed === undefined || proof.length === 0) return false;
  let old = seed;
  let now = seed;
  const isWhole = climb(rest, {
    at,
    last,
    join: (hash, side) => {
      if (side === "left") old = nodeHash(sha256, hash, old);
      now = side === "left" ? nodeHash(sha256, hash, now) : nodeHash(sha256, now, hash);
    },
  });
  return isWhole && equalBytes(old, before.root) && equalBytes(now, after.root);
};
