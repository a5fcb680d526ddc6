# What ctest says where all tests of an executable skip, some, or none that did not fail: with the
# property that tutti_test() gives each. Run by ctest with -D SAMPLE=... -D ALL_SKIPPED=...
# -D FOLDER=... -D CTEST=...

# expect(OUTCOME FILTER ENVIRONMENT): of a run with --gtest_filter=FILTER.
function(expect outcome filter environment)
  file(WRITE ${FOLDER}/CTestTestfile.cmake
       "add_test(sample \"${SAMPLE}\" \"--gtest_filter=${filter}\")\n"
       "set_tests_properties(sample PROPERTIES ENVIRONMENT \"${environment}\"\n"
       "  SKIP_REGULAR_EXPRESSION [==[${ALL_SKIPPED}]==])\n")
  execute_process(COMMAND ${CTEST} --test-dir ${FOLDER} OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT output MATCHES "sample \\.+ *[*]*${outcome} ")
    message(SEND_ERROR "${filter} ${environment} is to be ${outcome}:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
expect(Skipped "Skips.*" "")
expect(Skipped "Skips.Here" "")
expect(Passed "*" "")
expect(Passed "Runs.*" "")
expect(Failed "*" "TUTTI_TEST_FAIL=1")
expect(Failed "Runs.*" "TUTTI_TEST_FAIL=1")
