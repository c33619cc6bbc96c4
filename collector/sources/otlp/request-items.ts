/** Splits and filters well-formed export requests of any signal without decoding them. */
import { type BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { lengthOf } from "#kit/bytes.ts";
import { messageLimits } from "#proto/limits/message-limits.ts";
import type { WireCheck } from "#proto/limits/wire-check.ts";
import { eachField, readWire, WireDepthError, wireHead, wireTag } from "#proto/wire.ts";

/** Field numbers, the same for every signal: of the resources in a request, and of the children in a resource and in a scope. */
const resourcesField = 1;
const childrenField = 2;
/** The limit of all parts together: otherwise a small request could repeat a large resource for thousands of items. */
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
    // Adjacent items are one piece: a request may have a hundred thousand.
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

/** Returns an export request without the items that nest too deeply for `wire`. */
export const withoutDeepItems = (request: Uint8Array, wire: WireCheck): Uint8Array =>
  readWire(request, (reader) => {
    const copy = (message: Span, number: number, levels: number): Uint8Array => {
      const parts: Uint8Array[] = [];
      let [copied] = message;
      eachChild(reader, message, number, (start, child) => {
        if (levels === 0 && !isTooDeep(request.subarray(...child), wire)) return;
        parts.push(request.subarray(copied, start));
        if (levels > 0) parts.push(wrap(number, [copy(child, childrenField, levels - 1)]));
        copied = child[1];
      });
      return Buffer.concat([...parts, request.subarray(copied, message[1])]);
    };
    return copy([0, request.length], resourcesField, 2);
  });

/** How many levels an item is below its request. */
const itemDepth = 3;

/** Reports whether an item nests too deeply within its request. Checks only what is long enough for that: a level takes two bytes. */
const isTooDeep = (item: Uint8Array, wire: WireCheck): boolean => {
  if (item.length < 2 * (messageLimits.depth - itemDepth)) return false;
  const inResource = wrap(childrenField, [wrap(childrenField, [item])]);
  try {
    wire.check(wrap(resourcesField, [inResource]));
  } catch (error) {
    return error instanceof WireDepthError;
  }
  return false;
};

/** `[start, end)` of a message's body. */
type Span = readonly [start: number, end: number];

/** Calls `visit` with the start and the body of each field with this number. */
const eachChild = (
  reader: BinaryReader,
  [start, end]: Span,
  number: number,
  visit: (start: number, body: Span) => void,
) => {
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
const wrap = (number: number, parts: readonly Uint8Array[]): Uint8Array =>
  Buffer.concat([wireHead(wireTag(number, WireType.LengthDelimited), lengthOf(parts)), ...parts]);
