import { useEffect, type RefObject } from "react";

const FOCUSABLE = 'a[href], button:not([disabled]), input:not([disabled]), select:not([disabled]), textarea:not([disabled]), summary, [tabindex="0"]';

/**
 * When a redraw takes away the element that has the focus, the browser gives it to the document, and the next Tab starts
 * at the top. This gives it to the nearest part of the page that is left.
 */
export function useKeptFocus(main: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    let chain: Element[] = [];
    const remember = (event: FocusEvent) => {
      chain = [];
      for (let one = event.target as Element | null; one && one !== document.body; one = one.parentElement) chain.push(one);
    };
    const repair = () => {
      if (document.activeElement !== document.body || !chain.length || chain[0]!.isConnected) return;
      const left = chain.find((one) => one.isConnected && main.current?.contains(one) && one !== main.current);
      const next = left?.querySelector<HTMLElement>(FOCUSABLE) ?? main.current;
      chain = [];
      next?.focus({ preventScroll: true });
    };
    // After the frame: a dialog that closes returns the focus by itself.
    const observer = new MutationObserver(() => requestAnimationFrame(repair));
    document.addEventListener("focusin", remember);
    observer.observe(document.body, { childList: true, subtree: true });
    return () => {
      document.removeEventListener("focusin", remember);
      observer.disconnect();
    };
  }, [main]);
}
