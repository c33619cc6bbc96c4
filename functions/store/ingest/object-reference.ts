import { objectNameOf } from "#functions/objects/object-store.ts";
import { BlockCorrupt, blockEncodings, storedEncodings } from "./stored-envelope.ts";

/** Where the data of a block are: a part of an object, with the encoding of the data. */
export interface ObjectReference {
  encoding: number;
  /** The id in `ingest_store`. */
  storeId: number;
  objectId: number;
  /** In hex. */
  nonce: string;
  offset: number;
  length: number;
}

const referenceBytes = 31;
const nonceBytes = 8;

/** Encodes a reference as the data of a block's row. */
export const encodeReference = (reference: ObjectReference): Uint8Array => {
  const bytes = Buffer.allocUnsafe(referenceBytes);
  bytes.writeUInt8(reference.encoding, 0);
  bytes.writeInt32BE(reference.storeId, 1);
  bytes.writeUIntBE(reference.objectId, 5, 6);
  bytes.write(reference.nonce, 11, nonceBytes, "hex");
  bytes.writeUIntBE(reference.offset, 19, 6);
  bytes.writeUIntBE(reference.length, 25, 6);
  return bytes;
};

/** Decodes the data of a block's row whose encoding is `object`. Throws `BlockCorrupt`. */
export const decodeReference = (data: Uint8Array): ObjectReference => {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length);
  const encoding = bytes[0];
  if (bytes.length !== referenceBytes || encoding === undefined || !isInner(encoding))
    throw new BlockCorrupt("a stored block does not name an object");
  return {
    encoding,
    storeId: bytes.readInt32BE(1),
    objectId: bytes.readUIntBE(5, 6),
    nonce: bytes.toString("hex", 11, 19),
    offset: bytes.readUIntBE(19, 6),
    length: bytes.readUIntBE(25, 6),
  };
};

const isInner = (encoding: number) => Object.values<number>(blockEncodings).includes(encoding);

/** Reports whether a block's row names an object instead of having the data. */
export const isInObject = ({ encoding }: { encoding: number }): boolean =>
  encoding === storedEncodings.object;

/** Returns the name of the object that a reference is to. */
export const referencedName = ({ objectId, nonce }: Pick<ObjectReference, "objectId" | "nonce">) =>
  objectNameOf(objectId, nonce);
