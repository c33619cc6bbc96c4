import { type BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { eachField, readWire, wireTag } from "../../../proto/wire.ts";

/** Field numbers, the same for every signal: of the resources in a request, and of the children in a resource and in a scope. */
const resourcesField = 1;
const childrenField = 2;
/** The limit of all parts together: a small request could otherwise repeat a large resource for thousands of items. */
const partsBytesMax = 64 * 1024 * 1024;
/** Tag and length of the messages around an item. */
const framingBytes = 24;

/**
 * Splits a well-formed export request of any signal into requests of at most `bytesMax` bytes, each with the resource and scope of
 * its items, in order. An item (span, log record, metric) is never split: one larger than `bytesMax` is alone in its request. Returns
 * null if the parts would be more than 64 MiB.
 */
export const splitExportRequest = (request: Uint8Array, bytesMax: number): Uint8Array[] | null => {
  if (request.byteLength <= bytesMax) return [request];
  const parts: Uint8Array[] = [];
  let resources: Uint8Array[] = [];
  let scopes: Uint8Array[] = [];
  let items: Uint8Array[] = [];
  let itemsEnd = 0;
  let size = 0;
  let partsBytes = 0;

  const addItem = (start: number, end: number) => {
    const last = items.at(-1);
    // Items that follow one another are one piece: a request may have a hundred thousand.
    if (last === undefined || itemsEnd !== start) items.push(request.subarray(start, end));
    else items[items.length - 1] = request.subarray(last.byteOffset - request.byteOffset, end);
    itemsEnd = end;
    size += end - start;
  };
  const closeScope = (header: Uint8Array) => {
    if (items.length > 0) scopes.push(wrap(childrenField, [header, ...items]));
    items = [];
  };
  const closeResource = (header: Uint8Array) => {
    if (scopes.length > 0) resources.push(wrap(resourcesField, [header, ...scopes]));
    scopes = [];
  };
  const closePart = () => {
    if (resources.length > 0) parts.push(Buffer.concat(resources));
    resources = [];
    size = 0;
  };

  readWire(request, (reader) => {
    eachChild(reader, [0, request.length], resourcesField, (_, resource) => {
      const resourceHeader = headerOf(request, reader, resource);
      eachChild(reader, resource, childrenField, (_, scope) => {
        const scopeHeader = headerOf(request, reader, scope);
        const headers = resourceHeader.length + scopeHeader.length + framingBytes;
        size += headers;
        eachChild(reader, scope, childrenField, (start, [, end]) => {
          const isFirst = items.length === 0 && scopes.length === 0 && resources.length === 0;
          if (size + end - start > bytesMax && !isFirst && partsBytes <= partsBytesMax) {
            closeScope(scopeHeader);
            closeResource(resourceHeader);
            partsBytes += size;
            closePart();
            size = headers;
          }
          addItem(start, end);
        });
        closeScope(scopeHeader);
      });
      closeResource(resourceHeader);
    });
  });
  closePart();
  return partsBytes > partsBytesMax ? null : parts;
};

/** `[start, end)` of a message's body. */
type Span = readonly [start: number, end: number];

/** Calls `visit` with the start of each field of that number, and its body. */
const eachChild = (
  reader: BinaryReader,
  [start, end]: Span,
  number: number,
  visit: (start: number, body: Span) => void,
): void => {
  let fieldStart = start;
  reader.pos = start;
  eachField(reader, end, (tag, valueEnd) => {
    if (tag >>> 3 === number) visit(fieldStart, [reader.pos, valueEnd]);
    fieldStart = valueEnd;
  });
};

/** Returns the fields that all children share: resource or scope, and schema URL. */
const headerOf = (bytes: Uint8Array, reader: BinaryReader, message: Span): Uint8Array => {
  const header: Uint8Array[] = [];
  const [start, end] = message;
  let copied = start;
  eachChild(reader, message, childrenField, (childStart, [, childEnd]) => {
    if (childStart > copied) header.push(bytes.subarray(copied, childStart));
    copied = childEnd;
  });
  if (copied < end) header.push(bytes.subarray(copied, end));
  return header.length === 1 && header[0] ? header[0] : Buffer.concat(header);
};

/** Encodes the parts as one length-delimited field. */
const wrap = (number: number, parts: readonly Uint8Array[]): Uint8Array => {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = new BinaryWriter()
    .uint32(wireTag(number, WireType.LengthDelimited))
    .uint32(length)
    .finish();
  return Buffer.concat([head, ...parts]);
};
