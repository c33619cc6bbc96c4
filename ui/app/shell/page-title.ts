import { createEffect } from "solid-js";

/** The name of the product, as the shell and the titles show it. */
export const productName = "Collector fleet";

/** Sets the document's title to `<title> · Collector fleet` while the page is mounted; every page calls it for itself. */
export const createPageTitle = (title: () => string | undefined): void => {
  createEffect(() => {
    const named = title();
    document.title = named === undefined ? productName : `${named} · ${productName}`;
  });
};
