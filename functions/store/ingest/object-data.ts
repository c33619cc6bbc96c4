/**
 * Reads the data of blocks that are in objects. Blocks that are close to each other in an object are read at once. A block whose object is
 * missing or has other bytes is damaged, which is noted for the job that records losses; while the store is unavailable nothing is.
 */
import { ObjectChanged, ObjectMissing, type ObjectStore } from "#functions/objects/object-store.ts";
import type { Executor } from "../database/database.ts";
import { noteDamage } from "./object-damage.ts";
import {
  decodeReference,
  isInObject,
  type ObjectReference,
  referencedName,
} from "./object-reference.ts";
import { type DrawnObject, findStoreLocation } from "./objects.ts";
import { type BlockCodec, BlockCorrupt, isOfDigest, type StoredBlock } from "./stored-envelope.ts";

/** Reads the data of blocks that are in objects. */
export interface ObjectReader {
  /** Returns each block with its data, or why it is damaged; blocks that have their data as they are. */
  withData<Block extends DigestedBlock>(
    blocks: readonly Block[],
  ): Promise<(Block | BlockCorrupt)[]>;
  /** Opens a store of `ingest_store`, once. */
  storeOf(id: number): Promise<ObjectStore>;
}

type DigestedBlock = Pick<StoredBlock, "encoding" | "data"> & { digest: Uint8Array };

/** The dependencies of a reader. */
export interface ObjectReaderNeeds {
  db: Pick<Executor, "execute">;
  /** Opens the store at a location of `SVC_INGEST_STORE`. */
  open(location: string): Promise<ObjectStore>;
  codec: Pick<BlockCodec, "digest">;
}

/** Blocks that have at most so many bytes between them are read at once, */
const gapBytesMax = 128 * 1024;
/** but not more bytes than these. */
const spanBytesMax = 8 * 1024 * 1024;
const readsAtOnce = 4;

/** A part of an object that is read at once. */
interface Span {
  offset: number;
  end: number;
  parts: Part[];
}

interface Part {
  index: number;
  reference: ObjectReference;
}

/** Creates a reader. It opens each store with the first block in it. */
export const createObjectReader = ({ db, open, codec }: ObjectReaderNeeds): ObjectReader => {
  const stores = new Map<number, ReturnType<ObjectReaderNeeds["open"]>>();
  const openById = async (id: number) => {
    const location = await findStoreLocation(db, id);
    if (location === undefined) throw new BlockCorrupt("the store of an object is not known");
    return open(location);
  };
  const storeOf = (id: number) => {
    const opened = stores.get(id) ?? openById(id);
    stores.set(id, opened);
    opened.catch(() => stores.delete(id));
    return opened;
  };
  const readSpan = async ({ offset, end, parts: [first] }: Span) => {
    if (first === undefined) throw new Error("a span without a part");
    const store = await storeOf(first.reference.storeId);
    return store.read(referencedName(first.reference), { offset, length: end - offset });
  };
  return {
    storeOf,
    async withData<Block extends DigestedBlock>(blocks: readonly Block[]) {
      const results: (Block | BlockCorrupt)[] = [...blocks];
      const spans = spansOf(blocks, results);
      const damaged: DrawnObject[] = [];
      const readNext = async () => {
        for (let span = spans.pop(); span; span = spans.pop()) {
          const bytes = await readSpan(span).catch(asDamage);
          for (const { index, reference } of span.parts) {
            const at = reference.offset - span.offset;
            const block = blocks[index] as Block;
            results[index] =
              bytes instanceof BlockCorrupt
                ? bytes
                : checked(codec, {
                    ...block,
                    encoding: reference.encoding,
                    data: bytes.subarray(at, at + reference.length),
                  });
            if (results[index] instanceof BlockCorrupt) damaged.push(nameOf(reference));
          }
        }
      };
      await Promise.all(Array.from({ length: readsAtOnce }, readNext));
      // A reader that may not write has read all the same: a daily comparison finds what is missing.
      await noteDamage(db, damaged).catch(() => undefined);
      return results;
    },
  };
};

const nameOf = ({ objectId, nonce }: ObjectReference): DrawnObject => ({ id: objectId, nonce });

const checked = <Block extends DigestedBlock>(
  codec: Pick<BlockCodec, "digest">,
  block: Block,
): Block | BlockCorrupt =>
  isOfDigest(block.data, block.digest, codec)
    ? block
    : new BlockCorrupt("a part of an object has another digest");

const asDamage = (cause: unknown): BlockCorrupt => {
  if (cause instanceof BlockCorrupt) return cause;
  if (cause instanceof ObjectMissing || cause instanceof ObjectChanged)
    return new BlockCorrupt(cause.message, { cause });
  throw cause;
};

/** Returns the spans to read, and notes the blocks that name no object as damaged. */
const spansOf = (
  blocks: readonly DigestedBlock[],
  damaged: (DigestedBlock | BlockCorrupt)[],
): Span[] => {
  const ofObjects = new Map<string, Part[]>();
  for (const [index, block] of blocks.entries()) {
    if (!isInObject(block)) continue;
    try {
      const reference = decodeReference(block.data);
      const key = `${reference.storeId} ${referencedName(reference)}`;
      const parts = ofObjects.get(key) ?? [];
      ofObjects.set(key, parts);
      parts.push({ index, reference });
    } catch (cause) {
      damaged[index] = asDamage(cause);
    }
  }
  return [...ofObjects.values()].flatMap(joinParts);
};

const joinParts = (parts: Part[]): Span[] => {
  const spans: Span[] = [];
  for (const part of parts.sort((a, b) => a.reference.offset - b.reference.offset)) {
    const { offset, length } = part.reference;
    const span = spans.at(-1);
    const end = offset + length;
    if (span && offset - span.end <= gapBytesMax && end - span.offset <= spanBytesMax) {
      span.end = Math.max(span.end, end);
      span.parts.push(part);
    } else spans.push({ offset, end, parts: [part] });
  }
  return spans;
};
