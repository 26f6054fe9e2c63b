/** Whether the text was copied. A browser has no clipboard for pages without TLS, or the user may have forbidden it. */
export async function writeClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
