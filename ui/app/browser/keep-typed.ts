import { useLocation } from "@solidjs/router";
import { onCleanup, onMount } from "solid-js";
import { keepText, readKeptText } from "./kept-text.ts";

const isBox = ({ type }: HTMLInputElement) => type === "checkbox";
const keyOf = (field: HTMLInputElement) =>
  isBox(field) ? `${field.name}=${field.value}` : field.name;

/**
 * Keeps what a person types into a form until the form is left within the page, and restores it after a reload of the same address, also in
 * fields that appear later. Never keeps a password.
 */
export const keepTyped = (form: HTMLFormElement, name: string): void => {
  const { pathname, search } = useLocation();
  const address = pathname + search;
  const typed = new URLSearchParams(readKeptText(name, address));
  const waiting = new Set(typed.keys());
  const restore = () => {
    for (const field of form.querySelectorAll("input")) {
      const key = keyOf(field);
      if (!waiting.delete(key)) continue;
      const text = typed.get(key) ?? "";
      if (isBox(field)) field.checked = text !== "";
      else field.value = text;
      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
  };
  form.addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || target.type === "password") return;
    const text = isBox(target) && !target.checked ? "" : target.value;
    typed.set(keyOf(target), text);
    keepText(name, address, String(typed));
  });
  const observer = new MutationObserver(restore);
  observer.observe(form, { childList: true, subtree: true });
  onMount(restore);
  onCleanup(() => {
    observer.disconnect();
    keepText(name, address, "");
  });
};
