import { type Accessor, createSignal } from "solid-js";
import { readStored, storeText } from "../../storage/browser-storage.ts";
import { parseLook, type TableLook } from "./columns.ts";

const storageKey = "fleet-table";

/** The table's look, kept for the next visit as far as storage is allowed. */
export const createLook = (): [Accessor<TableLook>, (look: TableLook) => void] => {
  const [look, setLook] = createSignal(parseLook(readStored(storageKey)));
  const change = (next: TableLook) => {
    setLook(next);
    storeText(storageKey, JSON.stringify(next));
  };
  return [look, change];
};
