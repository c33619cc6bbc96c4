import { type Accessor, createSignal, onCleanup } from "solid-js";

/** Reports whether a media query matches, until the caller is disposed. Widths are in em, which follow the text size of the browser. */
export const createMedia = (query: string): Accessor<boolean> => {
  const media = matchMedia(query);
  const [matches, setMatches] = createSignal(media.matches);
  const update = () => setMatches(media.matches);
  media.addEventListener("change", update);
  onCleanup(() => media.removeEventListener("change", update));
  return matches;
};
